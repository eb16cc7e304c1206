//! Appends that leave together and are stored each for itself.
//!
//! Invariant: every append gets one answer within the time of one request, and no answer waits for another.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::Subscriber;
use futures::StreamExt;

use crate::append::{Append, AppendAnswer};
use crate::connect::{Bus, Kind, REQUEST_TIMEOUT, Sign};
use crate::error::Error;
use crate::exchange::{Failure, code};
use crate::publish::{Outcome, Part};

/// Who is still to be told.
#[derive(Debug)]
struct Answers<F> {
    told: Vec<bool>,
    missing: usize,
    tell: F,
}

impl<F: FnMut(usize, AppendAnswer)> Answers<F> {
    fn new(count: usize, tell: F) -> Self {
        Self { told: vec![false; count], missing: count, tell }
    }

    /// Tells the first answer to an append.
    fn note(&mut self, index: usize, answer: AppendAnswer) {
        if let Some(told @ false) = self.told.get_mut(index) {
            *told = true;
            self.missing -= 1;
            (self.tell)(index, answer);
        }
    }

    /// Tells `rest` for every answer that did not come.
    fn finish(mut self, rest: &AppendAnswer) {
        (0..self.told.len()).for_each(|index| self.note(index, rest.clone()));
    }
}

fn lock<F>(answers: &Mutex<Answers<F>>) -> MutexGuard<'_, Answers<F>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which append an answer is for.
fn index(reply: &str) -> Option<usize> {
    reply.rsplit('.').next()?.parse().ok()
}

impl Bus {
    /// Sends appends without waiting in between; each is stored if its subject stands where expected, whatever
    /// becomes of the others. `tell` gets the answer to each by its place, as soon as it comes.
    pub async fn append_each(&self, appends: &[Append], tell: impl FnMut(usize, AppendAnswer)) {
        let offline = AppendAnswer::Retry { code: code::NO_RESPONDERS };
        if !self.is_connected() {
            return Answers::new(appends.len(), tell).finish(&offline);
        }
        let client = &self.inner.client;
        let inbox = client.new_inbox();
        let Ok(mut replies) = client.subscribe(format!("{inbox}.*")).await else {
            return Answers::new(appends.len(), tell).finish(&offline);
        };
        let answers = Mutex::new(Answers::new(appends.len(), tell));
        let send = async {
            for (index, append) in appends.iter().enumerate() {
                if let Err(error) = self.send_one(append, format!("{inbox}.{index}")).await {
                    let description = error.to_string();
                    lock(&answers).note(index, AppendAnswer::Failed { code: 0, description });
                }
            }
            std::future::pending::<()>().await;
        };
        let mut sign = None;
        // Nothing is sent any more once no answer can come.
        let done = async {
            tokio::select! {
                biased;
                () = self.collect(appends, &mut replies, &answers, &mut sign) => {}
                () = send => {}
            }
        };
        if tokio::time::timeout(REQUEST_TIMEOUT, done).await.is_err() {
            sign = sign.or(Some(Sign::TimedOut(Kind::Write)));
        }
        if let Some(sign) = sign {
            self.note(sign).await;
        }
        answers.into_inner().unwrap_or_else(PoisonError::into_inner).finish(&AppendAnswer::Unknown);
    }

    /// Reads answers until none is missing or no more can come.
    async fn collect<F: FnMut(usize, AppendAnswer)>(
        &self,
        appends: &[Append],
        replies: &mut Subscriber,
        answers: &Mutex<Answers<F>>,
        sign: &mut Option<Sign>,
    ) {
        let broken = self.broken(|subject| appends.iter().any(|append| append.subject == subject));
        tokio::pin!(broken);
        while lock(answers).missing > 0 {
            tokio::select! {
                biased;
                reply = replies.next() => {
                    let Some(reply) = reply else { break };
                    let outcome = match reply.status.map(|status| u64::from(status.as_u16())) {
                        Some(code::NO_RESPONDERS) => Outcome::Retry { code: code::NO_RESPONDERS },
                        Some(_) | None => Outcome::read(&reply.payload),
                    };
                    *sign = Some(Sign::Answered(Kind::Write))
                        .filter(|_| matches!(outcome, Outcome::Stored { .. }))
                        .or(*sign)
                        .or(outcome.sign());
                    if let Some(index) = index(&reply.subject) {
                        lock(answers).note(index, outcome.into());
                    }
                }
                failure = &mut broken => {
                    if let Failure::Denied { subject } = failure {
                        deny(appends, &subject, &mut lock(answers));
                    }
                    break;
                }
            }
        }
    }

    async fn send_one(&self, append: &Append, reply: String) -> Result<(), Error> {
        let Part { subject, headers, payload } = append.part()?;
        self.check_size(&subject, payload.len())?;
        let client = &self.inner.client;
        let sent = client.publish_with_reply_and_headers(subject, reply, headers, payload).await;
        sent.map_err(|_| Error::Subject(append.subject.clone()))
    }
}

/// The server names the subject of a message that it did not take.
fn deny<F: FnMut(usize, AppendAnswer)>(
    appends: &[Append],
    subject: &str,
    answers: &mut Answers<F>,
) {
    for (index, _) in appends.iter().enumerate().filter(|(_, append)| append.subject == subject) {
        answers.note(index, AppendAnswer::Denied { subject: subject.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_append_is_told_one_answer_and_the_first_one_counts() {
        let mut told = Vec::new();
        let mut answers = Answers::new(3, |index, answer| told.push((index, answer)));
        answers.note(2, AppendAnswer::Stored { seq: 7 });
        answers.note(2, AppendAnswer::Conflict);
        answers.note(0, AppendAnswer::Conflict);
        answers.note(9, AppendAnswer::Conflict);
        assert_eq!(answers.missing, 1);
        answers.finish(&AppendAnswer::Unknown);
        let stored = AppendAnswer::Stored { seq: 7 };
        assert_eq!(told, [(2, stored), (0, AppendAnswer::Conflict), (1, AppendAnswer::Unknown)]);
    }

    #[test]
    fn an_answer_names_its_append() {
        assert_eq!(index("_INBOX.e1.x7.12"), Some(12));
        assert_eq!(index("_INBOX.e1.x7.*"), None);
    }
}

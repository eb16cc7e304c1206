//! Appends that leave together and are stored each for itself.
//!
//! Invariant: every append gets an answer within the time of one request, and no answer depends on another's.

use futures::StreamExt;

use crate::append::{Append, AppendAnswer};
use crate::connect::{Bus, Kind, REQUEST_TIMEOUT, Sign};
use crate::error::Error;
use crate::exchange::{Failure, code};
use crate::publish::{Outcome, Part};

/// Answers as they come.
#[derive(Debug)]
struct Answers {
    known: Vec<Option<AppendAnswer>>,
    missing: usize,
}

impl Answers {
    fn new(count: usize) -> Self {
        Self { known: vec![None; count], missing: count }
    }

    /// Notes the first answer to an append.
    fn note(&mut self, index: usize, answer: AppendAnswer) {
        if let Some(slot @ None) = self.known.get_mut(index) {
            *slot = Some(answer);
            self.missing -= 1;
        }
    }

    /// Every answer; `rest` for those that did not come.
    fn finish(self, rest: &AppendAnswer) -> Vec<AppendAnswer> {
        self.known.into_iter().map(|answer| answer.unwrap_or_else(|| rest.clone())).collect()
    }
}

/// Which append an answer is for.
fn index(reply: &str) -> Option<usize> {
    reply.rsplit('.').next()?.parse().ok()
}

impl Bus {
    /// Sends appends without waiting in between; each is stored if its subject stands where expected, whatever
    /// becomes of the others.
    pub async fn append_each(&self, appends: &[Append]) -> Vec<AppendAnswer> {
        let mut answers = Answers::new(appends.len());
        let offline = AppendAnswer::Retry { code: code::NO_RESPONDERS };
        if !self.is_connected() {
            return answers.finish(&offline);
        }
        let client = &self.inner.client;
        let inbox = client.new_inbox();
        let Ok(mut replies) = client.subscribe(format!("{inbox}.*")).await else {
            return answers.finish(&offline);
        };
        let broken = self.broken(|subject| appends.iter().any(|append| append.subject == subject));
        tokio::pin!(broken);
        for (index, append) in appends.iter().enumerate() {
            if let Err(error) = self.send_one(append, format!("{inbox}.{index}")).await {
                let description = error.to_string();
                answers.note(index, AppendAnswer::Failed { code: 0, description });
            }
        }
        let mut sign = None;
        let collect = async {
            while answers.missing > 0 {
                tokio::select! {
                    biased;
                    reply = replies.next() => {
                        let Some(reply) = reply else { break };
                        let outcome = match reply.status.map(|status| u64::from(status.as_u16())) {
                            Some(code::NO_RESPONDERS) => Outcome::Retry { code: code::NO_RESPONDERS },
                            Some(_) | None => Outcome::read(&reply.payload),
                        };
                        sign = Some(Sign::Answered(Kind::Write))
                            .filter(|_| matches!(outcome, Outcome::Stored { .. }))
                            .or(sign)
                            .or(outcome.sign());
                        if let Some(index) = index(&reply.subject) {
                            answers.note(index, outcome.into());
                        }
                    }
                    failure = &mut broken => {
                        if let Failure::Denied { subject } = failure {
                            deny(appends, &subject, &mut answers);
                        }
                        break;
                    }
                }
            }
        };
        if tokio::time::timeout(REQUEST_TIMEOUT, collect).await.is_err() {
            sign = sign.or(Some(Sign::TimedOut(Kind::Write)));
        }
        if let Some(sign) = sign {
            self.note(sign).await;
        }
        answers.finish(&AppendAnswer::Unknown)
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
fn deny(appends: &[Append], subject: &str, answers: &mut Answers) {
    for (index, _) in appends.iter().enumerate().filter(|(_, append)| append.subject == subject) {
        answers.note(index, AppendAnswer::Denied { subject: subject.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_append_has_one_answer_and_the_first_one_counts() {
        let mut answers = Answers::new(3);
        answers.note(2, AppendAnswer::Stored { seq: 7 });
        answers.note(2, AppendAnswer::Conflict);
        answers.note(0, AppendAnswer::Conflict);
        answers.note(9, AppendAnswer::Conflict);
        assert_eq!(answers.missing, 1);
        let all = answers.finish(&AppendAnswer::Unknown);
        let stored = AppendAnswer::Stored { seq: 7 };
        assert_eq!(all, [AppendAnswer::Conflict, AppendAnswer::Unknown, stored]);
    }

    #[test]
    fn an_answer_names_its_append() {
        assert_eq!(index("_INBOX.e1.x7.12"), Some(12));
        assert_eq!(index("_INBOX.e1.x7.*"), None);
    }
}

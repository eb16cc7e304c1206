//! Commands that were stored while this node could not read them: it reads them before it decides again.
//!
//! ```text
//!   the connection was lost ─┐
//!   the loop stood still ────┼─► gap ─► where is the head of CRON_COMMANDS? ─► read to there ─► turns
//!   a batch was out for long ┘    └──────────────── HEAR_WITHIN at most ─────────────────────┘
//! ```
//!
//! Invariant: while the connection is down nothing is decided, as it would be sent later as it was. Behind a gap
//! nothing is, until the commands are read to the head that they have then, or a bound is over: a stream without a
//! leader stops no slots.

use std::time::Duration;

use cronstream_schemas::time::Timestamp;

use crate::node::Node;
use crate::seat::{Seat, Stage};

/// A loop that wakes this much later than it wanted to may have stood still for the whole of its rest.
const STALL_MIN: Duration = Duration::from_millis(5);
/// How long it rests at most while it is not known what was missed: a stall in between is to be noticed.
const GAP_REST: Duration = Duration::from_millis(20);
/// So has one that was at work for so long: it may as well have been stopped meanwhile.
const WORK_MAX: Duration = Duration::from_millis(250);
/// A batch that is out for so long tells of a broker, or a way to it, that stood still.
const OUT_MAX: Duration = Duration::from_secs(1);
/// How long commands are waited for behind a gap.
const HEAR_WITHIN: Duration = Duration::from_secs(2);

/// What the node may have missed.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    /// How often the connection was made.
    connects: u64,
    /// The last look.
    looked: Duration,
    /// When the loop began to rest, and for how long at most.
    rested: Duration,
    sleep: Duration,
    /// Numbers the questions for the head.
    questions: u64,
    gap: Option<Gap>,
}

/// A time of which it is not known whether its commands are read.
#[derive(Debug)]
struct Gap {
    /// When turns were taken last.
    began: Duration,
    /// Since when commands can be read again.
    since: Duration,
    question: Option<u64>,
    /// The head that the commands had behind it.
    head: Option<u64>,
}

/// The connection as it is.
#[derive(Debug, Clone, Copy)]
struct Link {
    is_up: bool,
    connects: u64,
}

impl Hearing {
    /// Notes for how long the loop rests from `now` on at most.
    pub(crate) fn rest(&mut self, now: Duration, sleep: Duration) {
        (self.rested, self.sleep) = (now, sleep);
    }

    /// How long the loop has stood still since the last look, if it did.
    fn stood(&self, now: Duration) -> Option<Duration> {
        let overslept = now.saturating_sub(self.rested + self.sleep);
        let worked = now.saturating_sub(self.looked + self.sleep);
        (overslept > STALL_MIN || worked > WORK_MAX).then_some(worked)
    }

    /// How long the loop may rest because of a gap.
    pub(crate) fn left(&self) -> Option<Duration> {
        let gap = self.gap.as_ref()?;
        Some((gap.since + HEAR_WITHIN).saturating_sub(self.looked).min(GAP_REST))
    }

    /// Notes that a batch is settled which was sent at `sent`.
    pub(crate) fn settled(&mut self, sent: Duration, now: Duration) {
        if now.saturating_sub(sent) > OUT_MAX {
            self.open(sent, now);
        }
    }

    fn open(&mut self, began: Duration, now: Duration) {
        let began = self.gap.as_ref().map_or(began, |gap| gap.began.min(began));
        self.gap = Some(Gap { began, since: now, question: None, head: None });
    }

    /// Looks for a gap that has come since the last look.
    fn look(&mut self, link: Link, now: Duration) {
        let began = self.looked;
        let stood = self.stood(now);
        self.looked = now;
        let lost = std::mem::replace(&mut self.connects, link.connects) != link.connects;
        match (&mut self.gap, stood) {
            _ if lost || !link.is_up => self.open(began, now),
            (None, Some(_)) => self.open(began, now),
            // What was asked is of before.
            (Some(gap), Some(stood)) => {
                *gap = Gap { since: gap.since + stood, question: None, head: None, ..*gap };
            }
            (_, None) => {}
        }
    }

    /// The number of the question for the head, if it is to be asked now.
    fn question(&mut self, link: Link) -> Option<u64> {
        let gap = self.gap.as_mut().filter(|gap| link.is_up && gap.question.is_none())?;
        self.questions += 1;
        gap.question = Some(self.questions);
        gap.question
    }

    /// Notes the answer to a question; gives whether it counts.
    fn answered(&mut self, question: u64, head: Option<u64>) -> bool {
        let Some(gap) = self.gap.as_mut().filter(|gap| gap.question == Some(question)) else {
            return false;
        };
        gap.head = head;
        gap.question = gap.question.filter(|_| head.is_some());
        head.is_some()
    }

    /// Ends the gap if the commands are read `through` its head, or were waited for long enough; gives how long nothing
    /// was decided, and whether they are read.
    fn close(&mut self, link: Link, through: Option<u64>) -> Option<(Duration, bool)> {
        let gap = self.gap.as_ref().filter(|_| link.is_up)?;
        let is_heard = gap.head.is_some_and(|head| through.is_some_and(|through| through >= head));
        let is_over = self.looked.saturating_sub(gap.since) >= HEAR_WITHIN;
        let stood = self.looked.saturating_sub(gap.began);
        (is_heard || is_over).then(|| {
            self.gap = None;
            (stood, is_heard)
        })
    }
}

impl Node {
    /// Whether commands may be stored that are to be read before anything is decided.
    pub(crate) fn is_deaf(&mut self, wall: Timestamp, monotonic: Duration) -> bool {
        let link = Link { is_up: self.desk.bus.is_connected(), connects: *self.connects.borrow() };
        self.hearing.look(link, monotonic);
        if self.seats.iter().all(|seat| seat.instance().is_none()) {
            // Whoever leads next surveys the heads.
            self.hearing.gap = None;
        }
        if let Some(question) = self.hearing.question(link) {
            self.desk.commands_head(question);
        }
        // Nothing is read while a partition has no room for more.
        let full = self.seats.iter().any(|seat| seat.partition.is_full());
        let through = self.commands.as_ref().map(|reader| reader.through);
        let through = if full { Some(u64::MAX) } else { through };
        let Some((stood, is_heard)) = self.hearing.close(link, through) else {
            return self.hearing.gap.is_some();
        };
        tracing::debug!(stood_ms = stood.as_millis(), "commands are read again");
        if !is_heard {
            tracing::warn!("commands are not read to their head: slots wait no longer for them");
        }
        let leading = |seat: &&mut Seat| matches!(seat.stage, Stage::Leading(_));
        for seat in self.seats.iter_mut().filter(leading) {
            seat.partition.stood_still(stood, wall);
        }
        false
    }

    /// Notes where the commands' head is behind a gap.
    pub(crate) fn commands_head(&mut self, question: u64, head: Option<u64>) {
        if self.hearing.answered(question, head)
            && let Some(commands) = &self.commands
            && head.is_some_and(|head| commands.through < head)
        {
            // The last commands may be gone: only their stream's leader can tell that none is left.
            commands.confirm();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Link = Link { is_up: true, connects: 1 };
    const DOWN: Link = Link { is_up: false, connects: 1 };
    const AGAIN: Link = Link { is_up: true, connects: 2 };

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// One that looked at 1 s and rests for 100 ms at most.
    fn resting() -> Hearing {
        let mut hearing = Hearing { connects: 1, looked: ms(1_000), ..Hearing::default() };
        hearing.rest(ms(1_020), ms(100));
        hearing
    }

    #[test]
    fn a_loop_in_time_has_missed_nothing() {
        let mut hearing = resting();
        hearing.look(UP, ms(1_120) + STALL_MIN);
        // At work for long, then woken by an input.
        hearing.rest(ms(1_120) + STALL_MIN + WORK_MAX, ms(500));
        hearing.look(UP, ms(1_120) + STALL_MIN + WORK_MAX);
        hearing.settled(ms(1_000), ms(1_000) + OUT_MAX);
        assert!(
            hearing.gap.is_none() && hearing.question(UP).is_none() && hearing.left().is_none()
        );
    }

    #[test]
    fn what_stood_still_goes_on_once_the_commands_are_read_to_the_head_that_they_have_then() {
        type Happen = fn(&mut Hearing);
        let gaps: [(&str, Happen); 6] = [
            ("a stall", |hearing| hearing.look(UP, ms(3_000))),
            ("a rest that was over a moment ago", |hearing| {
                hearing.rest(ms(1_020), ms(1_974));
                hearing.look(UP, ms(3_000));
            }),
            ("a stall at work", |hearing| {
                hearing.rest(ms(3_000), ms(100));
                hearing.look(UP, ms(3_000));
            }),
            ("another connection", |hearing| hearing.look(AGAIN, ms(3_000))),
            ("no connection", |hearing| {
                hearing.look(DOWN, ms(2_000));
                assert!(hearing.question(DOWN).is_none() && hearing.close(DOWN, Some(9)).is_none());
                hearing.look(AGAIN, ms(3_000));
            }),
            ("a batch that was out", |hearing| {
                hearing.settled(ms(1_000), ms(3_000));
                hearing.rest(ms(1_020), ms(3_000));
                hearing.look(UP, ms(3_000));
            }),
        ];
        for (name, gap) in gaps {
            let mut hearing = resting();
            gap(&mut hearing);
            let question = hearing.question(AGAIN).unwrap();
            assert_eq!(hearing.question(AGAIN), None, "{name}: asked once");
            assert_eq!(hearing.close(AGAIN, Some(9)), None, "{name}: the head is not known");
            assert!(!hearing.answered(question - 1, Some(5)), "{name}: another question's answer");
            assert!(hearing.answered(question, Some(9)), "{name}");
            assert_eq!(hearing.close(AGAIN, None), None, "{name}: nothing is followed");
            assert_eq!(hearing.close(AGAIN, Some(8)), None, "{name}: one is not read");
            assert_eq!(hearing.close(AGAIN, Some(9)), Some((ms(2_000), true)), "{name}");
            assert!(hearing.gap.is_none(), "{name}");
        }
    }

    #[test]
    fn a_question_without_an_answer_is_asked_again_and_waited_for_within_bounds() {
        let mut hearing = resting();
        hearing.look(UP, ms(3_000));
        let question = hearing.question(UP).unwrap();
        assert!(!hearing.answered(question, None));
        assert_eq!(hearing.question(UP), Some(question + 1));
        assert_eq!(hearing.left(), Some(GAP_REST));
        hearing.rest(ms(3_000), ms(1_999));
        hearing.look(UP, ms(4_999));
        assert_eq!((hearing.close(UP, Some(0)), hearing.left()), (None, Some(ms(1))));
        hearing.rest(ms(4_999), ms(1));
        hearing.look(UP, ms(5_000));
        assert_eq!(hearing.close(UP, Some(0)), Some((ms(4_000), false)));
    }

    #[test]
    fn a_stall_behind_a_gap_is_no_time_in_which_commands_were_waited_for() {
        let mut hearing = resting();
        hearing.look(UP, ms(3_000));
        let question = hearing.question(UP).unwrap();
        hearing.rest(ms(3_000), ms(500));
        hearing.look(UP, ms(9_500));
        assert!(!hearing.answered(question, Some(9)), "it is of before the stall");
        assert_eq!(hearing.gap.as_ref().map(|gap| gap.since), Some(ms(9_000)));
        assert_eq!(hearing.question(UP), Some(question + 1));
    }
}

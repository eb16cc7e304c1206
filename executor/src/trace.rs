//! What an attempt tells of itself as spans.
//!
//! Invariant: an attempt is told of once it is over, by the executor whose event ended it, by the one that the leader
//! took it from, or by whoever finds it crashed; never by an executor that another one has overtaken.

use cronstream_bus::Delivery;
use cronstream_core::attempt::Last;
use cronstream_schemas::event::{Executor, Fired, Place, RunEvent};
use cronstream_schemas::trace::SpanId;
use cronstream_telemetry::{AttemptSpans, HandlerKind, HandlerTimes, Moment, Outcome, Spans};

use crate::store::Stored;

/// One delivery of a traced fire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trace<'a> {
    pub(crate) spans: &'a Spans,
    pub(crate) fired: &'a Fired,
    /// The subject that it came on.
    pub(crate) subject: &'a str,
    /// The fire's broker timestamp.
    pub(crate) stored: Moment,
    pub(crate) kind: HandlerKind,
    /// The fire's span, if the run is traced.
    fire: Option<SpanId>,
}

/// An attempt that goes on.
#[derive(Debug, Clone)]
pub(crate) struct Begun {
    pub(crate) place: Place,
    /// Its fencing token.
    pub(crate) token: u64,
    previous: Option<Place>,
    waited_since: Option<Moment>,
    started: Moment,
}

impl<'a> Trace<'a> {
    pub(crate) fn new(
        spans: &'a Spans,
        (fired, kind): (&'a Fired, HandlerKind),
        delivery: &'a Delivery,
    ) -> Self {
        let message = &delivery.message;
        let stored = Moment::from_millis(message.timestamp_ms);
        let fire = fired.traced().map(|fire| fire.span);
        Self { spans, fired, subject: &message.subject, stored, kind, fire }
    }

    /// Whether the run is traced.
    pub(crate) const fn is_traced(&self) -> bool {
        self.fire.is_some()
    }

    /// Takes an attempt whose start has just been stored behind `last`.
    pub(crate) fn begin(&self, place: Place, token: u64, last: Option<&Stored>) -> Begun {
        let of_this_fire =
            |stored: &&Stored| stored.last.event.place().fire_no == self.fired.fire_no;
        let waited_since = match last.filter(of_this_fire) {
            None => Some(self.stored),
            Some(Stored { last: Last { event: RunEvent::Interrupted(_), .. }, at }) => {
                Some((*at).into())
            }
            Some(_) => None,
        };
        let previous = last.map(|stored| stored.last.event.place());
        Begun { place, previous, waited_since, started: Moment::now(), token }
    }

    /// Tells of the attempt that `last` shows to have crashed, if it does.
    pub(crate) fn crashed(&self, last: Option<&Stored>) {
        let Some(Stored { last: Last { event: RunEvent::Started(event), seq }, at }) = last else {
            return;
        };
        let place = event.place;
        if place.fire_no != self.fired.fire_no {
            return;
        }
        let first = place.delivery <= 1;
        let delivery = place.delivery.saturating_sub(1);
        let begun = Begun {
            place,
            previous: (!first).then_some(Place { delivery, ..place }),
            waited_since: first.then_some(self.stored),
            started: (*at).into(),
            token: *seq,
        };
        let ended = Moment::now();
        self.tell(&begun, &event.executor, (begun.started, ended), None);
    }

    /// Tells of an attempt that crashed and whose run the leader has ended before anybody found that: when it began
    /// is no longer known.
    pub(crate) fn ended_unseen(&self, last: Option<&Stored>, finder: &Executor) {
        let Some(Stored { last: Last { event, seq }, at }) = last else { return };
        let place = event.place();
        if is_leaders(event) && place.fire_no == self.fired.fire_no && place.delivery > 0 {
            let begun = Begun {
                place,
                previous: None,
                waited_since: None,
                started: self.stored,
                token: *seq,
            };
            self.tell(&begun, finder, (self.stored, (*at).into()), Some(event));
        }
    }

    /// Tells of an attempt of mine that another event than mine has ended, unless that was another executor's.
    pub(crate) fn overtaken(
        &self,
        begun: &Begun,
        me: &Executor,
        by: &RunEvent,
        task: (Moment, Moment),
    ) {
        if is_leaders(by) && by.place() == begun.place {
            self.tell(begun, me, task, Some(by));
        }
    }

    /// Tells of an attempt that ended by this event, or by a crash.
    pub(crate) fn tell(
        &self,
        begun: &Begun,
        executor: &Executor,
        (started, ended): (Moment, Moment),
        event: Option<&RunEvent>,
    ) {
        let (Some(fire), kind) = (self.fire, self.kind) else { return };
        let spans = AttemptSpans {
            fired: self.fired,
            fire,
            subject: self.subject,
            place: begun.place,
            node: &executor.node,
            previous: begun.previous,
            waited_since: begun.waited_since,
            started: begun.started,
            ended: Moment::now(),
            handler: HandlerTimes { kind, started, ended },
            token: begun.token,
            outcome: event.map_or(Outcome::Crashed, Outcome::Event),
        }
        .write();
        self.spans.record(&spans);
    }
}

/// Whether it is the leader's word.
const fn is_leaders(event: &RunEvent) -> bool {
    match event {
        RunEvent::Expired(_) | RunEvent::Cancelled(_) | RunEvent::Lost(_) => true,
        RunEvent::Started(_)
        | RunEvent::Interrupted(_)
        | RunEvent::AttemptFailed(_)
        | RunEvent::Succeeded(_)
        | RunEvent::Failed(_) => false,
    }
}

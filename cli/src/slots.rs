//! Slots to come, each with what is known of it now: when it is due, what was asked for it, what calendars and clock
//! changes do to it.
//!
//! Invariant: pure, and the plan is the ticker's own; slots that a calendar leaves out are counted, never walked.

use std::time::Duration;

use cronstream_core::calendar::Calendars;
use cronstream_core::plan::Plan;
use cronstream_core::schedule::Zone;
use cronstream_schemas::definition::{JobDefinition, Shift};
use cronstream_schemas::event::{JobState, Override};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::clock_changes::{self, ClockChange};
use crate::output::{count, short};

const TICK: Duration = Duration::from_millis(1);
/// Further from its clock change no slot is that the change touches: Samoa left out a whole day.
const CHANGE: Duration = Duration::from_secs(86_400);

/// The slots of a definition.
#[derive(Debug)]
pub(crate) struct Timetable {
    /// The job.
    pub(crate) job: JobId,
    /// Its definition.
    pub(crate) definition: JobDefinition,
    /// Its slots.
    pub(crate) plan: Plan,
    /// Its slots without calendars, where it uses some.
    plain: Option<Plan>,
    /// The calendars that are known.
    calendars: Calendars,
}

/// What becomes of a slot, as far as it is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    /// It is due.
    Due,
    /// It was asked to be skipped.
    Skipped,
    /// The job is paused.
    Paused,
    /// A calendar is not known: the slot waits for it.
    Held,
}

/// A slot to come.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Moment {
    /// The slot.
    pub(crate) slot: Timestamp,
    /// When it is due: later by jitter, or shifted.
    pub(crate) due: Timestamp,
    /// What becomes of it.
    pub(crate) state: Fate,
    /// Slots between the one before and this one that calendars leave out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<LeftOut>,
    /// What is worth knowing of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// Slots that the schedule has, on days that its calendars have not.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LeftOut {
    first: Timestamp,
    last: Timestamp,
    slots: u64,
}

impl Timetable {
    /// The slots of a definition that counts from `anchor`.
    ///
    /// # Errors
    /// What is wrong with its expressions or its zone.
    pub(crate) fn new(
        job: &JobId,
        definition: &JobDefinition,
        anchor: Timestamp,
        calendars: Calendars,
    ) -> Result<Self, Vec<Fault>> {
        let plan = Plan::compile(definition, job, anchor, &calendars)?;
        let plain = definition.calendars.as_ref().map(|_| {
            let mut plain = definition.clone();
            plain.calendars = None;
            Plan::compile(&plain, job, anchor, &calendars)
        });
        let plain = plain.transpose()?;
        Ok(Self { job: job.clone(), definition: definition.clone(), plan, plain, calendars })
    }

    /// The slots of a job's state; none for a deleted job, or for one whose calendar a later version wrote.
    pub(crate) fn of(state: &JobState, calendars: Calendars) -> Option<Self> {
        let definition = state.definition.as_ref()?;
        Self::new(&state.job, definition, state.anchor, calendars).ok()
    }

    /// The zone that its slots are read in.
    pub(crate) fn zone(&self) -> Zone {
        Zone::get(&self.definition.time_zone).unwrap_or(Zone::UTC)
    }

    /// The slots from `from` on and before `before`, at most `most`, with what is asked for them, in the order in which
    /// they are due. A slot before `from` that was shifted to behind it is one of them.
    pub(crate) fn ahead(
        &self,
        (from, before): (Timestamp, Timestamp),
        most: usize,
        overrides: &[Override],
    ) -> Vec<Moment> {
        // Where a calendar is missing, the slots that wait for it are those without it.
        let missing = self.plan.missing_calendar().cloned();
        let plan = if missing.is_some() { self.plain.as_ref() } else { None };
        let plan = plan.unwrap_or(&self.plan);
        let first = at_or_after(plan, from);
        let slots = std::iter::successors(first, |slot| plan.next(*slot));
        // A slot that was shifted to an earlier instant and has fired there is none to come.
        let is_done =
            |slot: &Timestamp| overrides.iter().any(|asked| asked.slot == *slot && asked.is_done());
        let slots = slots.take_while(|slot| *slot < before).filter(|slot| !is_done(slot));
        let waits = |asked: &&Override| {
            let span = from..before;
            asked.slot < from && !asked.is_done() && asked.to.is_some_and(|to| span.contains(&to))
        };
        let waiting: Vec<Timestamp> =
            overrides.iter().filter(waits).map(|asked| asked.slot).collect();
        // So many that those that are shifted behind others leave enough.
        let slots: Vec<_> = slots.take(most.saturating_add(overrides.len())).collect();
        let changes = match (slots.first(), slots.last()) {
            (Some(first), Some(last)) => self.clock_changes(first.minus(CHANGE), last.plus(CHANGE)),
            _ => Vec::new(),
        };
        let mut moments: Vec<Moment> =
            waiting.into_iter().map(|slot| self.moment(slot, overrides)).collect();
        let mut previous = from.minus(TICK);
        for slot in slots {
            let mut moment = self.moment(slot, overrides);
            if let Some(calendar) = &missing {
                moment.state = Fate::Held;
                moment.notes.push(format!("calendar {calendar} is not known: it waits for it"));
            } else {
                previous = self.tell_calendars(&mut moment, previous);
            }
            moment.notes.extend(changes.iter().filter_map(|change| change.of(slot)));
            previous = previous.max(slot);
            moments.push(moment);
        }
        moments.sort_by_key(|moment| (moment.due, moment.slot));
        moments.truncate(most);
        moments
    }

    /// How many slots lie in `from..to`.
    pub(crate) fn count(&self, from: Timestamp, to: Timestamp) -> u64 {
        // Nothing is before the first instant of all, so its slot is not after anything.
        let first = from == Timestamp::MIN && from < to;
        let first = first && at_or_after(&self.plan, from) == Some(from);
        u64::from(first) + self.plan.count(from.minus(TICK), to.minus(TICK))
    }

    /// What the clock changes of its zone do to its slots, from one instant through another.
    pub(crate) fn clock_changes(&self, from: Timestamp, through: Timestamp) -> Vec<ClockChange> {
        clock_changes::of(&self.job, &self.definition, &self.calendars, (from, through))
    }

    fn moment(&self, slot: Timestamp, overrides: &[Override]) -> Moment {
        let jitter = self.plan.jitter();
        let mut moment = Moment {
            slot,
            due: slot.plus(jitter),
            state: Fate::Due,
            left_out: None,
            notes: Vec::new(),
        };
        let asked = overrides.iter().rfind(|asked| asked.slot == slot);
        match asked.map(|asked| asked.to) {
            Some(None) => {
                moment.state = Fate::Skipped;
                moment.notes.push("skipped as asked".into());
            }
            Some(Some(to)) => {
                moment.due = to;
                moment.notes.push(format!("shifted as asked, from {slot}"));
            }
            None if !jitter.is_zero() => {
                moment.notes.push(format!("jitter {} after its slot", short(jitter)));
            }
            None => {}
        }
        moment
    }

    /// Says what calendars did between the slot before, or the day that it was moved from, and this one; returns the
    /// last slot of the schedule that is told of.
    fn tell_calendars(&self, moment: &mut Moment, previous: Timestamp) -> Timestamp {
        let Some(plain) = &self.plain else { return previous };
        let slot = moment.slot;
        let shift = self.definition.calendars.as_ref().and_then(|used| used.shift);
        let origin = match shift {
            _ if at_or_after(plain, slot) == Some(slot) => None,
            Some(Shift::Next) => plain.prev(slot),
            Some(Shift::Previous) => plain.next(slot),
            None => None,
        };
        if let Some(origin) = origin {
            moment.notes.push(format!("moved by its calendars, from {origin}"));
        }
        // What was moved here is not left out as well.
        let before = origin.map_or(slot, |origin| origin.min(slot)).minus(TICK);
        let slots = if previous < before { plain.count(previous, before) } else { 0 };
        let first = plain.next(previous).filter(|first| *first <= before);
        if let (Some(first), Some(last), 1..) = (first, plain.prev(before.plus(TICK)), slots) {
            let verb = if slots == 1 { "is" } else { "are" };
            moment.notes.push(format!(
                "before it {} {verb} left out by its calendars, from {first}",
                count(slots, "slot")
            ));
            moment.left_out = Some(LeftOut { first, last, slots });
        }
        origin.unwrap_or(previous)
    }
}

fn at_or_after(plan: &Plan, from: Timestamp) -> Option<Timestamp> {
    plan.prev(from.plus(TICK)).filter(|slot| *slot == from).or_else(|| plan.next(from))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cronstream_schemas::calendar::CalendarDefinition;
    use cronstream_schemas::definition::Draft;
    use cronstream_schemas::event::CalendarState;
    use cronstream_schemas::id::Revision;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// The slots of a definition, where `a/work` has no weekends and no New Year's Day.
    fn timetable(fields: &str) -> Timetable {
        let days = br#"{"exclude":[{"weekly":["SAT","SUN"]},{"yearly":"01-01"}]}"#;
        let state = CalendarState {
            calendar: "a/work".parse().unwrap(),
            revision: Revision(1),
            definition: Some(CalendarDefinition::decode(days).unwrap()),
            command: 1,
            at: Timestamp::MIN,
        };
        let mut calendars = Calendars::default();
        calendars.apply(&Arc::new(state));
        let body = format!(r#"{{"task":"t",{fields}}}"#);
        let definition = Draft::decode(body.as_bytes()).finish().unwrap();
        Timetable::new(&"a/b".parse().unwrap(), &definition, Timestamp::MIN, calendars).unwrap()
    }

    fn ahead(timetable: &Timetable, after: &str, most: usize) -> Vec<Moment> {
        timetable.ahead((at(after).plus(TICK), Timestamp::MAX), most, &[])
    }

    /// The notes of the first slots in a zone, each with its place.
    fn noted(fields: &str, zone: &str, from: &str, most: usize) -> Vec<(usize, String)> {
        let fields = format!(r#"{fields},"time_zone":"{zone}""#);
        let moments = ahead(&timetable(&fields), from, most);
        let notes = moments.into_iter().map(|moment| moment.notes.join("; ")).enumerate();
        notes.filter(|(_, note)| !note.is_empty()).collect()
    }

    #[test]
    fn a_clock_change_is_told_at_the_slots_that_it_touches() {
        let daily = |time: &str| format!(r#""schedule":{{"cron":"{time} * * *"}}"#);
        // The slot of the day that was left out runs at its end; the one twelve hours later is another.
        let told = noted(&daily("0 12"), "Pacific/Apia", "2011-12-30T00:00:00Z", 3);
        let [(0, note)] = &told[..] else { panic!("{told:?}") };
        assert!(
            note.ends_with("12:00 does not exist and runs once, at 2011-12-31 00:00"),
            "{note}"
        );
        // The change is before the first slot, or behind the last.
        let before = format!(r#"{},"gap":"before""#, daily("15 2"));
        let told = noted(&before, "Australia/Lord_Howe", "2025-10-04T15:40:00Z", 2);
        let [(0, note)] = &told[..] else { panic!("{told:?}") };
        assert!(note.ends_with("02:15 does not exist and runs at 02:45"), "{note}");
        let told = noted(&daily("30 2"), "Europe/Berlin", "2026-10-24T12:00:00Z", 1);
        assert!(told[0].1.ends_with("02:30 comes twice and runs the first time only"), "{told:?}");
        // What does not run is told at no slot.
        let skip = format!(r#"{},"gap":"skip""#, daily("30 2,3"));
        assert_eq!(noted(&skip, "Europe/Berlin", "2026-03-28T12:00:00Z", 4), []);
        let several = noted(&daily("15,45 2"), "Europe/Berlin", "2026-03-28T12:00:00Z", 3);
        assert!(
            several[0].1.ends_with("do not exist and run once together, at 03:00"),
            "{several:?}"
        );
    }

    #[test]
    fn the_first_instant_of_all_is_a_slot() {
        let yearly = timetable(r#""schedule":{"cron":"0 0 1 1 *"}"#);
        let first = at("1970-01-01T00:00:00Z");
        let moments = yearly.ahead((first, Timestamp::MAX), 2, &[]);
        let slots: Vec<_> = moments.iter().map(|moment| moment.slot).collect();
        assert_eq!(slots, [first, at("1971-01-01T00:00:00Z")]);
        assert_eq!(yearly.count(first, at("1971-01-01T00:00:00Z")), 1);
        assert_eq!(yearly.count(first, first), 0);
        assert_eq!(yearly.count(first, at("1971-01-01T00:00:01Z")), 2);
    }

    #[test]
    fn slots_that_a_calendar_leaves_out_are_counted_before_the_next_one() {
        let hourly =
            timetable(r#""schedule":{"cron":"0 * * * *"},"calendars":{"only":["a/work"]}"#);
        let moments = ahead(&hourly, "2027-01-08T22:00:00.001Z", 2);
        assert_eq!(moments[0].slot, at("2027-01-08T23:00:00Z"));
        assert!(moments[0].left_out.is_none() && moments[0].notes.is_empty());
        let left = moments[1].left_out.as_ref().unwrap();
        assert_eq!((moments[1].slot, left.slots), (at("2027-01-11T00:00:00Z"), 48));
        assert_eq!(left.first, at("2027-01-09T00:00:00Z"));
        assert_eq!(left.last, at("2027-01-10T23:00:00Z"));
        // Hundreds of thousands of them are counted as fast.
        let rare = timetable(r#""schedule":{"every":"1s"},"calendars":{"except":["a/work"]}"#);
        let left = ahead(&rare, "2027-01-11T00:00:00.001Z", 1)[0].left_out.as_ref().unwrap().slots;
        assert_eq!(left, 5 * 86_400 - 1);
    }

    #[test]
    fn a_slot_that_a_calendar_moves_says_so() {
        let moved = timetable(
            r#""schedule":{"cron":"0 9 1 * *"},"calendars":{"only":["a/work"],"shift":"next"}"#,
        );
        // The first of 2027 is a holiday, and a Friday.
        let moments = ahead(&moved, "2026-12-31T00:00:00Z", 2);
        assert_eq!(moments[0].slot, at("2027-01-04T09:00:00Z"));
        assert_eq!(moments[0].notes, ["moved by its calendars, from 2027-01-01T09:00:00.000Z"]);
        assert_eq!(moments[1].slot, at("2027-02-01T09:00:00Z"));
        assert!(moments[1].notes.is_empty(), "{:?}", moments[1]);
    }

    /// Told once: neither as moved and left out, nor before the slot behind the day that it was moved from.
    #[test]
    fn a_slot_that_is_moved_to_a_day_before_is_not_left_out_as_well() {
        let moved = timetable(
            r#""schedule":{"cron":"0 9 1 * *"},"calendars":{"only":["a/work"],"shift":"previous"}"#,
        );
        // The first of May 2027 is a Saturday.
        let moments = ahead(&moved, "2027-04-02T00:00:00Z", 2);
        assert_eq!(moments[0].slot, at("2027-04-30T09:00:00Z"));
        assert_eq!(moments[0].notes, ["moved by its calendars, from 2027-05-01T09:00:00.000Z"]);
        assert_eq!(moments[1].slot, at("2027-06-01T09:00:00Z"));
        assert!(moments[1].notes.is_empty(), "{:?}", moments[1]);
    }

    #[test]
    fn a_missing_calendar_holds_the_slots_that_there_are_without_it() {
        let held = timetable(r#""schedule":{"cron":"0 9 * * *"},"calendars":{"only":["a/gone"]}"#);
        let moments = ahead(&held, "2027-01-02T00:00:00Z", 1);
        assert_eq!((moments[0].slot, moments[0].state), (at("2027-01-02T09:00:00Z"), Fate::Held));
    }

    #[test]
    fn what_was_asked_for_a_slot_is_told_with_it() {
        let daily = timetable(r#""schedule":{"cron":"0 9 * * *"},"jitter":"5m""#);
        let (skipped, shifted) = (at("2027-01-02T09:00:00Z"), at("2027-01-03T09:00:00Z"));
        let to = at("2027-01-03T12:00:00Z");
        let asked = [
            Override { slot: skipped, to: None, command: 1, done: None },
            Override { slot: shifted, to: Some(to), command: 2, done: None },
        ];
        let span = (at("2027-01-02T00:00:00Z"), at("2027-01-05T00:00:00Z"));
        let moments = daily.ahead(span, 10, &asked);
        assert_eq!(moments.len(), 3);
        assert_eq!(moments[0].state, Fate::Skipped);
        assert_eq!((moments[1].state, moments[1].due), (Fate::Due, to));
        assert!(moments[2].due > moments[2].slot && moments[2].notes[0].starts_with("jitter "));
    }

    #[test]
    fn a_shifted_slot_stands_where_it_is_due() {
        let daily = timetable(r#""schedule":{"cron":"0 9 * * *"}"#);
        let shifted = |slot: &str, to: &str| {
            [Override { slot: at(slot), to: Some(at(to)), command: 1, done: None }]
        };
        let slots = |from: &str, asked: &[Override]| -> Vec<String> {
            let moments = daily.ahead((at(from), Timestamp::MAX), 2, asked);
            moments.iter().map(|moment| moment.due.to_string()).collect()
        };
        let behind = shifted("2027-01-02T09:00:00Z", "2027-01-03T12:00:00Z");
        let due = ["2027-01-03T09:00:00.000Z", "2027-01-03T12:00:00.000Z"];
        assert_eq!(slots("2027-01-02T00:00:00Z", &behind), due);
        // Its own instant has passed, and it waits.
        assert_eq!(slots("2027-01-02T10:00:00Z", &behind), due);
        let far = shifted("2027-01-02T09:00:00Z", "2027-01-09T12:00:00Z");
        let due = ["2027-01-03T09:00:00.000Z", "2027-01-04T09:00:00.000Z"];
        assert_eq!(slots("2027-01-02T00:00:00Z", &far), due);
    }
}

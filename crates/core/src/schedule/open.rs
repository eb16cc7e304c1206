//! When a job may be due: on some days, within some stretches of the day, as the wall of its zone shows them.
//!
//! Invariant: an instant is open when the wall shows an open day and an open second at it. Searches go from one
//! stretch to the next and from one clock change to the next, never from instant to instant.

use std::sync::Arc;

use cronstream_schemas::definition::DailyWindow;

use super::{
    days::{Day, DaySet, low_bits},
    table::END,
    zone::Zone,
};

/// The seconds of a day.
const DAY: u32 = 86_400;

/// A change of the clock shows nothing again that was on the wall so many milliseconds before: where the wall has no
/// open day to come, one within this time may still bring the last of them back.
const AGAIN: i64 = DAY as i64 * 1_000;

/// Stretches of the day: sorted, apart from each other, none over midnight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Windows(Box<[(u32, u32)]>);

impl Windows {
    /// The seconds that belong to any of `windows`; `None` when that is the whole day.
    #[must_use]
    pub fn of(windows: &[DailyWindow]) -> Option<Self> {
        let mut parts: Vec<(u32, u32)> = Vec::with_capacity(windows.len() + 1);
        for window in windows {
            let (from, to) = (window.from_second(), window.to_second());
            if from < to {
                parts.push((from, to));
            } else {
                parts.extend([(from, DAY), (0, to)].into_iter().filter(|(from, to)| from < to));
            }
        }
        parts.sort_unstable();
        let mut apart: Vec<(u32, u32)> = Vec::with_capacity(parts.len());
        for (from, to) in parts {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                Some(_) | None => apart.push((from, to)),
            }
        }
        (!matches!(apart[..], [] | [(0, DAY)])).then(|| Self(apart.into()))
    }

    /// Whether this second of the day belongs to a window.
    #[must_use]
    pub fn contains(&self, second: u32) -> bool {
        self.0.iter().any(|(from, to)| (*from..*to).contains(&second))
    }

    /// The seconds of a minute of the day that belong to a window; bit 0 is the first.
    pub(super) fn seconds_of(&self, minute: u32) -> u64 {
        let start = minute * 60;
        self.0.iter().fold(0, |seconds, (from, to)| {
            let place = |second: &u32| second.saturating_sub(start).min(60);
            seconds | (low_bits(place(to)) & !low_bits(place(from)))
        })
    }

    /// The first second at or after `second` that belongs to a window.
    fn next(&self, second: u32) -> Option<u32> {
        let found = self.0.iter().find(|(_, to)| *to > second)?;
        Some(found.0.max(second))
    }

    /// The last second at or before `second` that belongs to a window.
    fn prev(&self, second: u32) -> Option<u32> {
        let found = self.0.iter().rev().find(|(from, _)| *from <= second)?;
        Some((found.1 - 1).min(second))
    }

    /// Where the window that `second` belongs to ends.
    fn end(&self, second: u32) -> u32 {
        self.0.iter().find(|(_, to)| *to > second).map_or(DAY, |(_, to)| *to)
    }
}

/// The instants at which a job may be due.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// The zone whose wall counts.
    pub zone: Zone,
    /// The days that count; `None` is all.
    pub days: Option<Arc<DaySet>>,
    /// The stretches of the day that count; `None` is the whole day.
    pub windows: Option<Windows>,
}

impl Open {
    /// Whether `at_ms` (Unix milliseconds) is open.
    #[must_use]
    pub fn contains(&self, at_ms: i64) -> bool {
        let (day, second) = self.zone.civil(at_ms);
        (0..END * 1_000).contains(&at_ms) && self.has_day(day) && self.has_second(second)
    }

    /// The first open instant at or after `at_ms` (Unix milliseconds); `None` is never again.
    #[must_use]
    pub fn next(&self, at_ms: i64) -> Option<i64> {
        let mut at_ms = at_ms.max(0);
        while at_ms < END * 1_000 {
            let (day, second) = self.zone.civil(at_ms);
            let found = self.next_civil(day, second).map(|(to_day, to_second)| {
                let days = (to_day.number() - day.number()) * i64::from(DAY);
                days + i64::from(to_second) - i64::from(second)
            });
            if found == Some(0) {
                return Some(at_ms);
            }
            let found = found.map(|seconds| (at_ms.div_euclid(1_000) + seconds) * 1_000);
            match self.zone.transitions(at_ms + 1, found.unwrap_or(at_ms + AGAIN)).next() {
                Some(change) => at_ms = change.at_ms,
                None => return found.filter(|found| *found < END * 1_000),
            }
        }
        None
    }

    /// The last open instant at or before `at_ms` (Unix milliseconds); `None` is never before.
    #[must_use]
    pub fn prev(&self, at_ms: i64) -> Option<i64> {
        let mut at_ms = at_ms.min(END * 1_000 - 1);
        while at_ms >= 0 {
            let (day, second) = self.zone.civil(at_ms);
            let found = self.prev_civil(day, second).map(|(to_day, to_second)| {
                let days = (day.number() - to_day.number()) * i64::from(DAY);
                days + i64::from(second) - i64::from(to_second)
            });
            if found == Some(0) {
                return Some(at_ms);
            }
            let found = found.map(|seconds| (at_ms.div_euclid(1_000) - seconds) * 1_000 + 999);
            match self.zone.transitions(found.unwrap_or(at_ms - AGAIN) + 1, at_ms).last() {
                Some(change) => at_ms = change.at_ms - 1,
                None => return found.filter(|found| *found >= 0),
            }
        }
        None
    }

    /// The stretches of open instants in `from_ms..to_ms` (Unix milliseconds), in order and apart; each is cut at
    /// midnight and at clock changes.
    pub fn stretches(&self, from_ms: i64, to_ms: i64) -> impl Iterator<Item = (i64, i64)> {
        let mut from_ms = from_ms;
        std::iter::from_fn(move || {
            let start = self.next(from_ms).filter(|start| *start < to_ms)?;
            from_ms = self.end(start);
            Some((start, from_ms.min(to_ms)))
        })
    }

    /// Where the stretch of an open instant ends, at midnight or a clock change at the latest.
    fn end(&self, at_ms: i64) -> i64 {
        let (_, second) = self.zone.civil(at_ms);
        let end = self.windows.as_ref().map_or(DAY, |windows| windows.end(second));
        let found = (at_ms.div_euclid(1_000) + i64::from(end - second)) * 1_000;
        let change = self.zone.transitions(at_ms + 1, found).next();
        change.map_or(found, |change| change.at_ms).min(END * 1_000)
    }

    fn next_civil(&self, day: Day, second: u32) -> Option<(Day, u32)> {
        if self.has_day(day)
            && let Some(second) = self.windows.as_ref().map_or(Some(second), |w| w.next(second))
        {
            return Some((day, second));
        }
        let day = day.plus(1)?;
        let day = self.days.as_ref().map_or(Some(day), |days| days.next_in(day))?;
        Some((day, self.windows.as_ref().map_or(0, |windows| windows.0[0].0)))
    }

    fn prev_civil(&self, day: Day, second: u32) -> Option<(Day, u32)> {
        if self.has_day(day)
            && let Some(second) = self.windows.as_ref().map_or(Some(second), |w| w.prev(second))
        {
            return Some((day, second));
        }
        let day = day.plus(-1)?;
        let day = self.days.as_ref().map_or(Some(day), |days| days.prev_in(day))?;
        let last = self.windows.as_ref().and_then(|windows| windows.prev(DAY - 1));
        Some((day, last.unwrap_or(DAY - 1)))
    }

    fn has_day(&self, day: Day) -> bool {
        self.days.as_ref().is_none_or(|days| days.contains(day))
    }

    fn has_second(&self, second: u32) -> bool {
        self.windows.as_ref().is_none_or(|windows| windows.contains(second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(texts: &[&str]) -> Option<Windows> {
        Windows::of(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn windows_are_joined_and_cut_at_midnight() {
        let parts = |texts: &[&str]| windows(texts).map(|windows| windows.0.to_vec());
        assert_eq!(parts(&["22:00-02:00"]), Some(vec![(0, 7_200), (79_200, 86_400)]));
        assert_eq!(parts(&["10:00-11:00", "09:00-10:00"]), Some(vec![(32_400, 39_600)]));
        assert_eq!(parts(&["22:00-24:00", "23:00-23:30"]), Some(vec![(79_200, 86_400)]));
        assert_eq!(parts(&["12:00-00:00", "00:00-12:00"]), None);
        assert_eq!(parts(&[]), None);
    }

    #[test]
    fn the_seconds_of_a_minute_are_those_of_its_windows() {
        let windows = windows(&["09:00:10-09:00:20", "09:00:50-09:02"]).unwrap();
        for minute in 0..1_440 {
            let seconds = windows.seconds_of(minute);
            for second in 0..60 {
                let is_in = windows.contains(minute * 60 + second);
                assert_eq!(seconds >> second & 1 == 1, is_in, "{minute}:{second}");
            }
            assert_eq!(seconds >> 60, 0, "{minute}");
        }
    }

    #[test]
    fn searches_agree_with_a_walk_of_minutes_through_clock_changes() {
        let days: DaySet = ["2026-03-28", "2026-03-29", "2026-10-25", "2026-10-26"]
            .map(|day| Day::parse(day).unwrap())
            .into_iter()
            .collect();
        for zone in ["Europe/Berlin", "Australia/Lord_Howe", "UTC", "America/New_York"] {
            for (days, windows) in [
                (None, windows(&["02:15-02:45", "23:30-00:30"])),
                (Some(Arc::new(days.clone())), windows(&["01:00-03:00"])),
                (Some(Arc::new(days.clone())), None),
            ] {
                let open = Open { zone: Zone::get(zone).unwrap(), days, windows };
                for from in [1_774_569_600_000, 1_792_800_000_000, 1_775_260_800_000] {
                    check(&open, from, from + 5 * 86_400_000);
                }
            }
        }
    }

    fn check(open: &Open, from: i64, to: i64) {
        const MINUTE: usize = 60_000;
        let mut next = open.next(to);
        for at in (from..to).rev().step_by(MINUTE).map(|at| at + 1 - MINUTE as i64) {
            if open.contains(at) {
                next = Some(at);
            }
            assert_eq!(open.next(at), next, "{open:?} at {at}");
        }
        let mut prev = open.prev(from - 1);
        for at in (from..to).step_by(MINUTE) {
            if open.contains(at) {
                prev = Some(at + MINUTE as i64 - 1);
            }
            assert_eq!(open.prev(at + MINUTE as i64 - 1), prev, "{open:?} at {at}");
        }
        let walked = (from..to).step_by(MINUTE).filter(|at| open.contains(*at)).count();
        let stretches: i64 = open.stretches(from, to).map(|(from, to)| to - from).sum();
        assert_eq!(stretches, (walked * MINUTE) as i64);
    }
}

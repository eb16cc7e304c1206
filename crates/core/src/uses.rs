//! Which jobs name which calendars.
//!
//! Invariant: both directions agree; a job that names none takes no room.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::event::JobState;
use cronstream_schemas::name::JobId;

/// The calendars that jobs name, and the jobs that name a calendar.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uses {
    by_job: HashMap<JobId, BTreeSet<CalendarId>>,
    by_calendar: BTreeMap<CalendarId, BTreeSet<JobId>>,
}

impl Uses {
    /// Notes the calendars that `job` names now, in place of those it named before.
    pub(crate) fn set(&mut self, job: &JobId, names: BTreeSet<CalendarId>) {
        if self.by_job.is_empty() && names.is_empty() {
            return;
        }
        let before = if names.is_empty() {
            self.by_job.remove(job)
        } else {
            self.by_job.insert(job.clone(), names.clone())
        };
        for gone in before.unwrap_or_default().difference(&names) {
            if let Some(jobs) = self.by_calendar.get_mut(gone) {
                jobs.remove(job);
                if jobs.is_empty() {
                    self.by_calendar.remove(gone);
                }
            }
        }
        for name in names {
            self.by_calendar.entry(name).or_default().insert(job.clone());
        }
    }

    /// The jobs that name `calendar`.
    pub(crate) fn of(&self, calendar: &CalendarId) -> impl Iterator<Item = &JobId> {
        self.by_calendar.get(calendar).into_iter().flatten()
    }
}

/// The calendars that a job's state names; none once it is deleted.
#[must_use]
pub fn names(state: &JobState) -> BTreeSet<CalendarId> {
    let calendars = state.definition.as_ref().and_then(|definition| definition.calendars.as_ref());
    calendars.into_iter().flat_map(|calendars| calendars.names().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_found_under_what_it_names_now_and_nothing_else() {
        let id = |text: &str| text.parse::<JobId>().unwrap();
        let set = |names: &[&str]| names.iter().map(|name| id(name)).collect::<BTreeSet<_>>();
        let mut uses = Uses::default();
        uses.set(&id("a/job"), set(&["a/x", "a/y"]));
        uses.set(&id("a/other"), set(&["a/y"]));
        uses.set(&id("a/job"), set(&["a/y", "a/z"]));
        let of = |uses: &Uses, name| uses.of(&id(name)).map(JobId::to_string).collect::<Vec<_>>();
        assert_eq!(of(&uses, "a/x"), [""; 0]);
        assert_eq!(of(&uses, "a/y"), ["a/job", "a/other"]);
        assert_eq!(of(&uses, "a/z"), ["a/job"]);
        uses.set(&id("a/job"), set(&[]));
        uses.set(&id("a/other"), set(&[]));
        assert!(uses.by_job.is_empty() && uses.by_calendar.is_empty());
    }
}

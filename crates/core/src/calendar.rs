//! Named calendars: every one that is known, and the days of each.
//!
//! ```text
//!   CalendarState ─apply─► Calendars ─days─► DaySet of one calendar ─working─► DaySet of a job's `calendars`
//!                              └─ check: parts are known, no cycle, not too deep
//! ```
//!
//! Invariant: days follow from the definitions alone. Two clones that took the same states give the same days;
//! a set is compiled when it is first asked for, once, and shared by whoever asks again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cronstream_schemas::calendar::{CalendarDefinition, CalendarId, DEPTH_MAX, DayRule};
use cronstream_schemas::definition::CalendarUse;
use cronstream_schemas::event::CalendarState;
use cronstream_schemas::fault::Fault;

use self::rules::Rules;
use crate::schedule::DaySet;

mod rules;

/// The most calendars of an installation.
pub const CALENDARS_KNOWN_MAX: usize = 10_000;

/// The calendars of a job that say on which days, without where a slot on another day goes.
type Use = (Vec<CalendarId>, Vec<CalendarId>);

/// All calendars of the installation, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct Calendars {
    states: BTreeMap<CalendarId, Arc<CalendarState>>,
    /// The calendars that name a calendar.
    users: BTreeMap<CalendarId, BTreeSet<CalendarId>>,
    /// Shared by clones, which have the same states; the next state begins another one.
    compiled: Arc<Mutex<Compiled>>,
}

#[derive(Debug, Default)]
struct Compiled {
    days: HashMap<CalendarId, Arc<DaySet>>,
    uses: HashMap<Use, Weak<DaySet>>,
}

impl Calendars {
    /// Takes a newer state, a tombstone included; an older one changes nothing. Returns the calendars whose days may
    /// be others now: it and all that are built of it.
    pub fn apply(&mut self, state: &Arc<CalendarState>) -> BTreeSet<CalendarId> {
        let id = &state.calendar;
        if self.states.get(id).is_some_and(|known| state.command <= known.command) {
            return BTreeSet::new();
        }
        self.index(id, state.definition.as_ref());
        self.states.insert(id.clone(), Arc::clone(state));
        let touched = self.built_of(id);
        let mut days = self.compiled().days.clone();
        days.retain(|other, _| !touched.contains(other));
        self.compiled = Arc::new(Mutex::new(Compiled { days, uses: HashMap::new() }));
        touched
    }

    /// A calendar that is in force.
    #[must_use]
    pub fn get(&self, id: &CalendarId) -> Option<&Arc<CalendarState>> {
        self.states.get(id).filter(|state| state.definition.is_some())
    }

    /// Every calendar that is in force, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CalendarState>> {
        self.states.values().filter(|state| state.definition.is_some())
    }

    /// The days of a calendar; `None` when it, or one that it is built of, is not known.
    #[must_use]
    pub fn days(&self, id: &CalendarId) -> Option<Arc<DaySet>> {
        self.days_of(id).ok()
    }

    /// The days on which a job may be due.
    ///
    /// # Errors
    /// The first calendar that is not known, whether the job names it or one of its calendars is built of it.
    pub fn working(&self, wanted: &CalendarUse) -> Result<Arc<DaySet>, CalendarId> {
        if let (&[only], []) = (&wanted.only.iter().collect::<Vec<_>>()[..], &wanted.except[..]) {
            return self.days_of(only);
        }
        let key = (wanted.only.clone(), wanted.except.clone());
        if let Some(known) = self.compiled().uses.get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let mut days = DaySet::all();
        for id in &wanted.only {
            days = days.intersect(&*self.days_of(id)?);
        }
        for id in &wanted.except {
            days = days.difference(&*self.days_of(id)?);
        }
        let days = Arc::new(days);
        self.compiled().uses.insert(key, Arc::downgrade(&days));
        Ok(days)
    }

    /// Whether `definition` may come into force under `id`.
    ///
    /// # Errors
    /// A fault for each part that is not known, for a cycle, and for what would be too deep.
    pub fn check(
        &self,
        id: &CalendarId,
        definition: &CalendarDefinition,
    ) -> Result<(), Vec<Fault>> {
        let mut faults: Vec<Fault> = Vec::new();
        let lists = [
            ("include", definition.include.as_deref()),
            ("exclude", Some(&definition.exclude[..])),
        ];
        for (list, rules) in lists {
            for (at, rule) in rules.into_iter().flatten().enumerate() {
                let DayRule::Calendar(part) = rule else { continue };
                let problem = if part == id || self.parts_of(part).contains(id) {
                    "is built of this calendar: a cycle"
                } else if self.get(part).is_none() {
                    "no such calendar"
                } else {
                    continue;
                };
                let path = format!("$.{list}[{at}].calendar");
                let expected = "a calendar that is defined and not built of this one";
                faults.push(Fault::new(path, &part.to_string(), problem, expected));
            }
        }
        if faults.is_empty() {
            let down = definition.parts().map(|part| longest(part, |id| self.parts(id)));
            let depth = down.max().unwrap_or(0) + longest(id, |id| self.users(id));
            if depth > DEPTH_MAX {
                let problem = format!("calendars would be built of each other {depth} deep");
                let expected = format!("at most {DEPTH_MAX}");
                faults.push(Fault::new("$", "", problem, expected));
            }
        }
        if self.get(id).is_none() && self.iter().count() >= CALENDARS_KNOWN_MAX {
            let expected = format!("at most {CALENDARS_KNOWN_MAX}; delete one first");
            faults.push(Fault::new("$", "", "too many calendars", expected));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// `id` and every calendar that is built of it, directly or not.
    #[must_use]
    pub fn built_of(&self, id: &CalendarId) -> BTreeSet<CalendarId> {
        let users = |id: &CalendarId| self.users.get(id).into_iter().flatten();
        let mut found = BTreeSet::from([id.clone()]);
        let mut left = vec![id.clone()];
        while let Some(next) = left.pop() {
            for user in
                users(&next).filter(|user| found.insert((*user).clone())).collect::<Vec<_>>()
            {
                left.push(user.clone());
            }
        }
        found
    }

    /// The calendars that name `id` themselves.
    pub fn users(&self, id: &CalendarId) -> impl Iterator<Item = &CalendarId> {
        self.users.get(id).into_iter().flatten()
    }

    /// Every calendar that `id` is built of, directly or not.
    fn parts_of(&self, id: &CalendarId) -> BTreeSet<CalendarId> {
        let mut found = BTreeSet::new();
        let mut left = vec![id.clone()];
        while let Some(next) = left.pop() {
            let new = self.parts(&next).filter(|part| found.insert((*part).clone()));
            left.extend(new.cloned().collect::<Vec<_>>());
        }
        found
    }

    /// The calendars that `id` names itself.
    fn parts(&self, id: &CalendarId) -> impl Iterator<Item = &CalendarId> {
        let definition = self.states.get(id).and_then(|state| state.definition.as_ref());
        definition.into_iter().flat_map(CalendarDefinition::parts)
    }

    fn days_of(&self, id: &CalendarId) -> Result<Arc<DaySet>, CalendarId> {
        self.compile(id, &mut Vec::new())
    }

    /// The days of `id`, which the calendars `above` lead to: one of them again is a cycle, and has no days.
    fn compile<'a>(
        &'a self,
        id: &'a CalendarId,
        above: &mut Vec<&'a CalendarId>,
    ) -> Result<Arc<DaySet>, CalendarId> {
        if let Some(days) = self.compiled().days.get(id) {
            return Ok(Arc::clone(days));
        }
        let definition = self.get(id).and_then(|state| state.definition.as_ref());
        let definition = definition.filter(|_| !above.contains(&id)).ok_or_else(|| id.clone())?;
        above.push(id);
        let mut list = |rules: &'a [DayRule]| -> Result<DaySet, CalendarId> {
            let mut all = Rules::default();
            let mut days = DaySet::none();
            for rule in rules {
                match rule {
                    DayRule::Calendar(part) => days = days.union(&*self.compile(part, above)?),
                    DayRule::Date(_)
                    | DayRule::Range(_)
                    | DayRule::Weekly(_)
                    | DayRule::Yearly(_)
                    | DayRule::NthWeekday(_)
                    | DayRule::Easter(_) => all.add(rule),
                }
            }
            Ok(days.union(&all.days()))
        };
        let included =
            definition.include.as_deref().map_or_else(|| Ok(DaySet::all()), &mut list)?;
        let days = Arc::new(included.difference(&list(&definition.exclude)?));
        above.pop();
        self.compiled().days.insert(id.clone(), Arc::clone(&days));
        Ok(days)
    }

    fn compiled(&self) -> MutexGuard<'_, Compiled> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&mut self, id: &CalendarId, definition: Option<&CalendarDefinition>) {
        for part in self.parts(id).cloned().collect::<Vec<_>>() {
            if let Some(users) = self.users.get_mut(&part) {
                users.remove(id);
                if users.is_empty() {
                    self.users.remove(&part);
                }
            }
        }
        for part in definition.into_iter().flat_map(CalendarDefinition::parts) {
            self.users.entry(part.clone()).or_default().insert(id.clone());
        }
    }
}

/// How many calendars the longest chain from `id` has, itself included, counted no further than one beyond what is
/// allowed.
fn longest<'a, I: Iterator<Item = &'a CalendarId>>(
    id: &'a CalendarId,
    next: impl Fn(&'a CalendarId) -> I,
) -> usize {
    let mut level = BTreeSet::from([id]);
    let mut length = 0;
    while !level.is_empty() && length <= DEPTH_MAX {
        length += 1;
        level = level.into_iter().flat_map(&next).collect();
    }
    length
}

#[cfg(test)]
mod tests;

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

/// From how many uses on those that no plan has are looked for.
const USES_MIN: usize = 64;

/// The calendars of a job that say on which days, without where a slot on another day goes.
type Use = (Vec<CalendarId>, Vec<CalendarId>);

/// All calendars of the installation, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct Calendars {
    states: BTreeMap<CalendarId, Arc<CalendarState>>,
    /// The calendars that name a calendar.
    users: BTreeMap<CalendarId, BTreeSet<CalendarId>>,
    /// Shared by clones for as long as they have the same states.
    compiled: Arc<Mutex<Compiled>>,
}

#[derive(Debug, Clone, Default)]
struct Compiled {
    days: HashMap<CalendarId, Arc<DaySet>>,
    /// What plans go by; that of none is dropped when as many again have been added as were left then.
    uses: HashMap<Use, Weak<DaySet>>,
    uses_max: usize,
}

impl Compiled {
    fn forget(&mut self, touched: &BTreeSet<CalendarId>) {
        for id in touched {
            self.days.remove(id);
        }
        self.uses
            .retain(|(only, except), _| !only.iter().chain(except).any(|id| touched.contains(id)));
    }

    fn note(&mut self, used: Use, days: &Arc<DaySet>) {
        if self.uses.len() >= self.uses_max {
            self.uses.retain(|_, days| days.strong_count() > 0);
            self.uses_max = USES_MIN.max(2 * self.uses.len());
        }
        self.uses.insert(used, Arc::downgrade(days));
    }
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
        // A clone has the states from before, and keeps what is compiled of them.
        if Arc::get_mut(&mut self.compiled).is_none() {
            let compiled = self.compiled().clone();
            self.compiled = Arc::new(Mutex::new(compiled));
        }
        self.compiled().forget(&touched);
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
        self.compiled().note(key, &days);
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
        let mut faults = self.unfit_parts(id, definition);
        if faults.is_empty() {
            let (parts, users) = (|id| self.parts(id), |id| self.users(id));
            let depth = longest(definition.parts(), parts) + longest([id], users);
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

    /// A fault for each part that is not known or would make a cycle.
    fn unfit_parts(&self, id: &CalendarId, definition: &CalendarDefinition) -> Vec<Fault> {
        let built = self.built_of(id);
        let lists = [
            ("include", definition.include.as_deref()),
            ("exclude", Some(&definition.exclude[..])),
        ];
        let mut faults = Vec::new();
        for (list, rules) in lists {
            for (at, rule) in rules.into_iter().flatten().enumerate() {
                let DayRule::Calendar(part) = rule else { continue };
                let problem = if built.contains(part) {
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
        faults
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

/// How many calendars the longest chain from any of `ids` has, that one included, told no further than one beyond what
/// is allowed. Looks at each calendar and what it leads to once.
fn longest<'a, I: Iterator<Item = &'a CalendarId>>(
    ids: impl IntoIterator<Item = &'a CalendarId>,
    next: impl Fn(&'a CalendarId) -> I + Copy,
) -> usize {
    fn of<'a, I: Iterator<Item = &'a CalendarId>>(
        id: &'a CalendarId,
        next: impl Fn(&'a CalendarId) -> I + Copy,
        (left, known): (usize, &mut HashMap<&'a CalendarId, usize>),
    ) -> usize {
        if let Some(length) = known.get(id) {
            return *length;
        }
        // One that leads to itself is as long as it gets; so is what is cut off here.
        known.insert(id, DEPTH_MAX + 1);
        if left == 0 {
            return DEPTH_MAX + 1;
        }
        let beyond = next(id).map(|id| of(id, next, (left - 1, &mut *known))).max();
        let length = (1 + beyond.unwrap_or(0)).min(DEPTH_MAX + 1);
        known.insert(id, length);
        length
    }
    let mut known = HashMap::new();
    ids.into_iter().map(|id| of(id, next, (DEPTH_MAX, &mut known))).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;

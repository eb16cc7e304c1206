//! The years of an expression, without a heap: up to four progressions of years.
//!
//! Invariant: the progressions are what a walk from the first year finds, each as long as it goes,
//! so two equal sets of years are equal values.

/// The first year that can be named.
pub(super) const YEAR_MIN: u32 = 1970;
/// The last year that can be named.
pub(super) const YEAR_MAX: u32 = 2199;

/// The most progressions of one set.
const RUNS: usize = 4;

/// The years in which an expression matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Years([YearRun; RUNS]);

/// Years `first`, `first + step`, … `last`, counted from [`YEAR_MIN`]; unused if `step` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct YearRun {
    first: u8,
    last: u8,
    step: u8,
}

impl Years {
    /// No restriction, not even to the years that can be named.
    pub(super) const EVERY: Self = Self([YearRun { first: 0, last: 0, step: 0 }; RUNS]);

    /// The set of these ascending years; `None` if it takes more than four progressions.
    pub(super) fn of(years: impl Iterator<Item = u32>) -> Option<Self> {
        let mut set = Self::EVERY;
        let mut used = 0;
        let mut open: Option<YearRun> = None;
        for year in years {
            let year = u8::try_from(year - YEAR_MIN).ok()?;
            open = match open {
                Some(run) if run.first == run.last || year == run.last + run.step => {
                    Some(YearRun { last: year, step: year - run.last, ..run })
                }
                Some(run) => {
                    *set.0.get_mut(used)? = run;
                    used += 1;
                    Some(YearRun { first: year, last: year, step: 1 })
                }
                None => Some(YearRun { first: year, last: year, step: 1 }),
            };
        }
        if let Some(run) = open {
            *set.0.get_mut(used)? = run;
        }
        Some(set)
    }

    pub(super) fn is_every(&self) -> bool {
        self.0[0].step == 0
    }

    pub(super) fn contains(&self, year: i32) -> bool {
        self.is_every()
            || u8::try_from(i64::from(year) - i64::from(YEAR_MIN)).is_ok_and(|year| {
                self.0.iter().any(|run| {
                    run.step != 0
                        && (run.first..=run.last).contains(&year)
                        && (year - run.first) % run.step == 0
                })
            })
    }

    /// First and last year and step of each progression.
    pub(super) fn progressions(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.0.iter().filter(|run| run.step != 0).map(|run| {
            let year = |offset: u8| YEAR_MIN + u32::from(offset);
            (year(run.first), year(run.last), u32::from(run.step))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_years_it_was_made_of() {
        let sets: [&[u32]; 6] = [
            &[2027],
            &[1970, 2199],
            &[2024, 2028, 2032, 2033, 2034],
            &[2001, 2002, 2004, 2006, 2008, 2100, 2150, 2160],
            &[1970, 1973, 1980, 1981, 1990, 1999, 2050, 2199],
            &[],
        ];
        for set in sets {
            let years = Years::of(set.iter().copied()).unwrap();
            for year in 1_960..2_241 {
                let expected = set.is_empty() || set.contains(&(year as u32));
                assert_eq!(years.contains(year), expected, "{year} in {set:?}");
            }
        }
        assert_eq!(size_of::<Years>(), 12);
    }

    #[test]
    fn a_set_of_more_than_four_progressions_is_refused() {
        let nine = [1970, 1971, 1980, 1982, 1990, 1993, 2000, 2005, 2100];
        assert_eq!(Years::of(nine.into_iter()), None);
        assert!(Years::of(nine.into_iter().take(8)).is_some());
    }
}

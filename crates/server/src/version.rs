//! The version of a nats-server, and the lowest one Cronstream works with.

use std::fmt;

/// The lowest nats-server version that stores a tick.
///
/// Found by sending a tick's batch to real servers, R1 and R3: 2.11.11 ignores the batch headers
/// and stores each message on its own; 2.12.0 refuses `Nats-Msg-Id` inside a batch (10177) and,
/// on one replica, refuses a batch that expects sequence 0 on two subjects (10164); 2.12.1 stores
/// batch, roll-up, `Nats-TTL: never` and message ids together, refuses a stale cursor (10071) and
/// a repeated message id (10201).
pub const MIN_VERSION: Version = Version { major: 2, minor: 12, patch: 1, released: true };

/// A nats-server version. A pre-release is older than its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
    /// Whether it is the release itself. Last, so that the derived order puts pre-releases before.
    pub released: bool,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.released { "" } else { "-pre" };
        write!(f, "{}.{}.{}{suffix}", self.major, self.minor, self.patch)
    }
}

impl Version {
    /// Reads `2.15.1`, `v2.15.1` or `2.15.1-RC.2`; nothing else is a version.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, released) = match text.split_once('-') {
            Some((numbers, _)) => (numbers, false),
            None => (text, true),
        };
        let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
        let mut next = || parts.next().flatten();
        let version = Self { major: next()?, minor: next()?, patch: next()?, released };
        parts.next().is_none().then_some(version)
    }

    /// Reads what `nats-server --version` prints.
    pub(crate) fn from_banner(text: &str) -> Option<Self> {
        Self::parse(text.trim().strip_prefix("nats-server:")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn versions_compare_by_number_not_by_text() {
        assert!(v("2.9.10") < v("2.12.0"));
        assert!(v("2.12.0") < MIN_VERSION);
        assert!(v("v2.12.1") >= MIN_VERSION);
        assert!(v("2.15.2") > MIN_VERSION);
    }

    #[test]
    fn a_release_candidate_is_older_than_its_release() {
        assert!(v("2.12.1-RC.1") < MIN_VERSION);
        assert!(v("2.13.0-beta") > MIN_VERSION);
        assert!(v("2.12.0-RC.9") < v("2.12.0"));
    }

    #[test]
    fn the_banner_of_another_program_is_no_version() {
        assert_eq!(Version::from_banner("nats-server: v2.15.2\n"), Some(v("2.15.2")));
        for text in ["", "nats-server", "nats-server: dev", "2.15.2", "nats-server: v2.15"] {
            assert_eq!(Version::from_banner(text), None, "{text}");
        }
        assert_eq!(Version::parse("1.2.3.4"), None);
    }
}

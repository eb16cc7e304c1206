//! Names of the streams, the bucket and the subjects that the bus itself needs.
//!
//! Invariant: no other file of this crate spells a stream's or bucket's name.

use cronstream_schemas::subject::Prefix;

/// What an installation's streams and bucket are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The stream of commands.
    pub commands: String,
    /// The stream of decisions.
    pub log: String,
    /// The stream of run events.
    pub runs: String,
    /// The stream of dead letters.
    pub dead: String,
    /// The stream of spans.
    pub traces: String,
    /// The bucket of leases.
    pub leases: String,
    /// The stream behind the bucket of leases.
    pub leases_stream: String,
    /// The installation's settings, a subject of the log.
    pub meta: String,
    /// Where every node answers with its status.
    pub status: String,
    /// Where every ticker hears that its hold has ended.
    pub release: String,
    prefix: Prefix,
}

impl Names {
    /// The names of the installation with this prefix.
    #[must_use]
    pub fn new(prefix: &Prefix) -> Self {
        let leases = prefix.stream("LEASES");
        Self {
            commands: prefix.stream("COMMANDS"),
            log: prefix.stream("LOG"),
            runs: prefix.stream("RUNS"),
            dead: prefix.stream("DEAD"),
            traces: prefix.stream("TRACES"),
            leases_stream: format!("KV_{leases}"),
            leases,
            meta: prefix.meta(),
            status: format!("$SRV.STATUS.{prefix}"),
            release: format!("$SRV.RELEASE.{prefix}"),
            prefix: prefix.clone(),
        }
    }

    /// The installation's prefix.
    #[must_use]
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The subject of a key of the lease bucket.
    pub(crate) fn lease_subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.leases)
    }

    /// The key that a subject of the lease bucket stands for.
    pub(crate) fn lease_key<'a>(&self, subject: &'a str) -> Option<&'a str> {
        subject.strip_prefix("$KV.")?.strip_prefix(&self.leases)?.strip_prefix('.')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_the_prefix() {
        let names = Names::new(&"acme".parse().unwrap());
        assert_eq!(names.log, "ACME_LOG");
        assert_eq!(names.leases_stream, "KV_ACME_LEASES");
        assert_eq!(names.meta, "acme.meta");
        assert_eq!(names.lease_key(&names.lease_subject("partition.3")), Some("partition.3"));
        assert_eq!(names.lease_key("$KV.ACME_OTHER.partition.3"), None);
    }
}

//! What the server says that this user may do.

use cronstream_bus::Bus;
use serde::Deserialize;

use crate::error::Error;

/// Where a server tells a user about itself.
const USER_INFO: &str = "$SYS.REQ.USER.INFO";

#[derive(Debug, Deserialize)]
struct Answer {
    data: Option<Data>,
}

#[derive(Debug, Deserialize)]
struct Data {
    #[serde(default)]
    permissions: Option<Rights>,
}

/// The subjects that a user may publish and subscribe to.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Rights {
    #[serde(default)]
    publish: Option<Subjects>,
    #[serde(default)]
    subscribe: Option<Subjects>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct Subjects {
    #[serde(default)]
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Option<Vec<String>>,
}

impl Rights {
    /// Asks the server.
    ///
    /// # Errors
    /// When it does not answer, such as for lack of the right to ask.
    pub(crate) async fn ask(bus: &Bus, patience: std::time::Duration) -> Result<Self, Error> {
        let answer = bus.request_core(USER_INFO, &Vec::new(), Vec::new().into(), patience).await?;
        let answer: Answer = serde_json::from_slice(&answer.payload).map_err(|error| {
            Error::Unreadable { what: USER_INFO.into(), problem: error.to_string() }
        })?;
        Ok(answer.data.and_then(|data| data.permissions).unwrap_or_default())
    }

    /// Whether every subject of a pattern may be published to.
    pub(crate) fn may_publish(&self, pattern: &str) -> bool {
        permits(self.publish.as_ref(), pattern)
    }

    /// Whether every subject of a pattern may be subscribed to.
    pub(crate) fn may_subscribe(&self, pattern: &str) -> bool {
        permits(self.subscribe.as_ref(), pattern)
    }
}

fn permits(subjects: Option<&Subjects>, pattern: &str) -> bool {
    let Some(Subjects { allow, deny }) = subjects else { return true };
    let allowed = match allow.as_deref() {
        None | Some([]) => true,
        Some(allow) => allow.iter().any(|wider| covers(wider, pattern)),
    };
    let denied =
        deny.iter().flatten().any(|other| covers(other, pattern) || covers(pattern, other));
    allowed && !denied
}

/// Whether every subject of `narrow` is one of `wide`.
fn covers(wide: &str, narrow: &str) -> bool {
    // A right may be bound to a queue group, which stands behind a blank.
    let wide = wide.split_whitespace().next().unwrap_or_default();
    let (mut wide, mut narrow) = (wide.split('.'), narrow.split('.'));
    loop {
        match (wide.next(), narrow.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) => return true,
            (Some("*"), Some(token)) if token != ">" => {}
            (Some(token), Some(other)) if token == other => {}
            (Some(_), Some(_)) | (None, Some(_)) | (Some(_), None) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_what_is_narrower() {
        for (wide, narrow, expected) in [
            (">", "a", true),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a.*", "a.b", true),
            ("a.*", "a.>", false),
            ("a.*.c", "a.*.c", true),
            ("a.b", "a.*", false),
            ("a.> q", "a.b", true),
        ] {
            assert_eq!(covers(wide, narrow), expected, "{wide} {narrow}");
        }
    }

    #[test]
    fn what_is_denied_in_part_is_not_permitted() {
        let text =
            r#"{"publish":{"allow":["cron.>"],"deny":["cron.job.>"]},"subscribe":{"deny":[">"]}}"#;
        let rights: Rights = serde_json::from_str(text).unwrap();
        assert!(rights.may_publish("cron.define.>"));
        assert!(!rights.may_publish("cron.>"));
        assert!(!rights.may_publish("other"));
        assert!(!rights.may_subscribe("_INBOX.>"));
        assert!(Rights::default().may_publish("anything.>"));
    }
}

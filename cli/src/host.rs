//! Names of nodes, from the host name.
//!
//! Invariant: whatever the host is called, the name is a legal one.

use cronstream_schemas::name::{NAME_MAX_BYTES, Name};

/// The system's list of users.
const USERS: &str = "/etc/passwd";

/// The host's name up to its first point, with `-` for what a name cannot hold.
pub(crate) fn node_name() -> Name {
    legal(&host(), "")
}

/// The same with the process id, for nodes of which one host may have several.
pub(crate) fn process_name() -> Name {
    legal(&host(), &format!("-{}", std::process::id()))
}

/// The user whose process this is, as the system's list of users names it, else by its number: services and
/// containers set no variable that says so.
pub(crate) fn user() -> String {
    let number = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string(USERS).unwrap_or_default();
    named(&users, number).map_or_else(|| format!("uid{number}"), str::to_owned)
}

/// The name that a list of users gives a number.
fn named(users: &str, number: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, of) = (fields.next()?, fields.nth(1)?);
        (of.parse() == Ok(number) && !name.is_empty()).then_some(name)
    })
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn legal(host: &str, suffix: &str) -> Name {
    let first = host.split('.').next().unwrap_or_default();
    let mut name: String = first
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(NAME_MAX_BYTES - suffix.len())
        .collect();
    if name.is_empty() {
        name.push_str("node");
    }
    Name::parse(&format!("{name}{suffix}")).expect("only legal characters are left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_the_list_of_users() {
        let users = "root:x:0:0:root:/root:/bin/bash\n\nodd\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(named(users, 0), Some("root"));
        assert_eq!(named(users, 1000), Some("ada"));
        assert_eq!(named(users, 7), None);
    }

    #[test]
    fn every_host_name_gives_a_legal_name() {
        for (host, name) in [
            ("web-1.prod.example", "web-1"),
            ("", "node"),
            ("...", "node"),
            ("-x", "x"),
            ("bücher", "b-cher"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(legal(host, "").as_str(), name, "{host}");
        }
        assert_eq!(legal(&"a".repeat(300), "-42").as_str().len(), NAME_MAX_BYTES);
    }
}

//! Names of nodes, from the host name.
//!
//! Invariant: whatever the host is called, the name is a legal one.

use cronstream_schemas::name::{NAME_MAX_BYTES, Name};

/// The host's name up to its first point, with `-` for what a name cannot hold.
pub(crate) fn node_name() -> Name {
    legal(&host(), "")
}

/// The same with the process id, for nodes of which one host may have several.
pub(crate) fn process_name() -> Name {
    legal(&host(), &format!("-{}", std::process::id()))
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

//! Names for jobs that had none, or none that is legal here.
//!
//! Invariant: a name is legal, stands once in its scope, and is the same at every import of the same entry: where it
//! stands in the file does not matter.

use std::collections::{HashMap, HashSet};

/// The most bytes of a name.
const NAME_MAX_BYTES: usize = 64;
/// The most bytes of a name that is made of a command.
const LABEL_MAX_BYTES: usize = 40;
/// What a hash adds to a name: a dash and six digits.
const HASH_BYTES: usize = 7;

/// A legal name that reads like the text: letters and digits stay, whatever is between them becomes one dash.
pub(super) fn slug(text: &str, otherwise: &str) -> String {
    let mut name = String::new();
    let mut dash = false;
    for c in text.chars() {
        if name.len() >= NAME_MAX_BYTES {
            break;
        }
        let keeps = c.is_ascii_alphanumeric() || (c == '_' && !name.is_empty());
        if keeps {
            if dash && name.len() + 1 < NAME_MAX_BYTES {
                name.push('-');
            }
            name.push(c);
        }
        dash = !keeps && !name.is_empty();
    }
    if name.is_empty() { otherwise.to_owned() } else { name }
}

/// What a shell command is called: its program and the first words behind it.
pub(super) fn of_command(command: &str) -> String {
    let part = command
        .split(['\n', ';', '|', '&', '>', '<'])
        .map(|part| part.trim_matches(|c: char| c.is_whitespace() || "(){}".contains(c)))
        .find(|part| !part.is_empty() && !is_preparation(part))
        .unwrap_or(command);
    let mut label = String::new();
    for word in part.split_whitespace().filter(|word| !is_assignment(word)) {
        let base = word.rsplit('/').find(|piece| !piece.is_empty()).unwrap_or(word);
        let base = if label.is_empty() { without_extension(base) } else { base };
        let piece = slug(base, "");
        if piece.is_empty() {
            continue;
        }
        if !label.is_empty() && label.len() + 1 + piece.len() > LABEL_MAX_BYTES {
            break;
        }
        if !label.is_empty() {
            label.push('-');
        }
        label.push_str(&piece);
    }
    label
}

/// Whether a part of a command line only prepares what is to be done.
fn is_preparation(part: &str) -> bool {
    let first = part.split_whitespace().next().unwrap_or_default();
    matches!(
        first,
        "cd" | "test" | "[" | "[[" | "sleep" | "." | "source" | "export" | "set" | "umask"
    ) || part.split_whitespace().all(is_assignment)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn without_extension(program: &str) -> &str {
    match program.rsplit_once('.') {
        Some((stem, "sh" | "py" | "pl" | "rb" | "php" | "js")) if !stem.is_empty() => stem,
        Some(_) | None => program,
    }
}

/// The names as they are wanted where nothing else wants them in the same scope; the others end in a hash of what
/// they are: `(scope, name, identity)`.
pub(super) fn unique(wanted: &[(&str, String, &str)]) -> Vec<String> {
    let mut times: HashMap<(&str, String), usize> = HashMap::new();
    for (scope, name, _) in wanted {
        *times.entry((scope, name.to_ascii_lowercase())).or_default() += 1;
    }
    let alone = |scope, name: &str| times.get(&(scope, name.to_ascii_lowercase())) == Some(&1);
    let mut taken: HashSet<(&str, String)> = HashSet::new();
    let plain = wanted.iter().filter(|(scope, name, _)| alone(scope, name));
    taken.extend(plain.map(|(scope, name, _)| (*scope, name.to_ascii_lowercase())));
    wanted
        .iter()
        .map(|(scope, name, identity)| {
            if alone(scope, name) {
                return name.clone();
            }
            let stem = shortened(name, NAME_MAX_BYTES - HASH_BYTES);
            let hashed = format!("{stem}-{:06x}", fnv(identity) & 0x00ff_ffff);
            let mut name = hashed.clone();
            let mut again = 2_usize;
            while !taken.insert((*scope, name.to_ascii_lowercase())) {
                let end = format!("-{again}");
                name = format!("{}{end}", shortened(&hashed, NAME_MAX_BYTES - end.len()));
                again += 1;
            }
            name
        })
        .collect()
}

/// The first bytes of an ASCII name.
fn shortened(name: &str, bytes: usize) -> &str {
    name.get(..bytes).unwrap_or(name)
}

/// FNV-1a: a hash that stays the same for ever.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use cronstream_schemas::name::Name;

    use super::*;

    #[test]
    fn a_command_is_called_by_its_program_and_first_words() {
        for (command, name) in [
            ("/usr/local/bin/backup.sh --all > /dev/null 2>&1", "backup-all"),
            ("cd / && run-parts --report /etc/cron.hourly", "run-parts-report-cron-hourly"),
            ("test -x /usr/sbin/anacron || { cd / && run-parts x; }", "run-parts-x"),
            ("LANG=C /opt/app/bin/job.py", "job"),
            ("[ -x /a ] && if true; then /b/c; fi", "if-true"),
            ("./söme-thing", "s-me-thing"),
            ("*** ###", ""),
            ("", ""),
        ] {
            assert_eq!(of_command(command), name, "{command}");
        }
    }

    #[test]
    fn a_name_is_legal_whatever_the_text() {
        let long = "x".repeat(500);
        let dashes = "a-".repeat(60);
        for text in ["", "---", "_a", "a.b.c", "ünïcode", &long, &dashes, "\u{0}\n", "a__b-"] {
            let name = slug(text, "job");
            assert!(Name::parse(&name).is_ok(), "{text:?}: {name:?}");
        }
        assert_eq!(slug("nightly.backup v2", "job"), "nightly-backup-v2");
    }

    #[test]
    fn names_that_meet_are_told_apart_by_what_they_are_and_not_by_their_place() {
        let one = ("d", "backup".to_owned(), "0 1 * * * a");
        let two = ("d", "backup".to_owned(), "0 2 * * * b");
        let other = ("e", "backup".to_owned(), "0 2 * * * b");
        let there = unique(&[one.clone(), two.clone(), other.clone()]);
        let back = unique(&[other, two.clone(), one.clone()]);
        assert_eq!((&there[0], &there[1], &there[2]), (&back[2], &back[1], &back[0]));
        assert!(there[0].starts_with("backup-") && there[2] == "backup", "{there:?}");
        let twins = unique(&[one.clone(), one.clone(), one]);
        assert_eq!(twins.iter().collect::<HashSet<_>>().len(), 3, "{twins:?}");
    }

    #[test]
    fn the_longest_names_stay_legal_when_they_meet() {
        let long = "x".repeat(64);
        let wanted: Vec<_> = (0..40).map(|_| ("d", long.clone(), "same")).collect();
        let names = unique(&wanted);
        assert!(names.iter().all(|name| Name::parse(name).is_ok()), "{names:?}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 40);
    }
}

//! Crontabs, as Debian's cron reads them: of a user, and of the system with a column for the user.
//!
//! Invariant: a job's slots are those of its line; the command reaches the shell as cron hands it over.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::found::{Entry, Imported, Settings, Task};
use super::{Outcome, names, schedule};

/// The most bytes of a line.
const LINE_MAX_BYTES: usize = 64 * 1024;
/// The most variables that are kept.
const VARIABLES_MAX: usize = 1_000;
/// The most characters of a title.
const TITLE_MAX_CHARS: usize = 200;
/// The longest that one run may take: cron sets no limit, and a run here has one.
const TIMEOUT: &str = "24h";

const MACROS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Users that a system's crontab names, and no command is called.
const USERS: [&str; 7] =
    ["root", "daemon", "nobody", "www-data", "postgres", "mysql", "systemd-timesync"];
/// What the five fields are.
const FIELDS: [&str; 5] = ["minute", "hour", "day of the month", "month", "day of the week"];

/// What the lines above an entry say.
#[derive(Debug, Default)]
struct Reader {
    imported: Imported,
    environment: BTreeMap<String, String>,
    title: Vec<String>,
    first_words: FirstWords,
}

/// Whether the first words of all commands look like users.
#[derive(Debug, Default)]
struct FirstWords {
    user: Option<String>,
    other: bool,
}

/// Whether a file is a crontab of the system, whose lines have a user: by where it stands.
pub(super) fn is_of_system(file: &Path) -> bool {
    file == Path::new("/etc/crontab") || file.parent() == Some(Path::new("/etc/cron.d"))
}

/// Reads a crontab.
///
/// # Errors
/// When it holds more than an import takes.
pub(super) fn read(text: &str, settings: &Settings) -> Outcome {
    let mut reader = Reader::default();
    let remarks = &mut reader.imported.remarks;
    if settings.time_zone.is_none() {
        remarks.add(
            "cron reads times on the clock of its machine, which no file tells: UTC here where no CRON_TZ names one; --time-zone names another",
        );
    }
    remarks.add("As with cron: runs may overlap (overlap: allow), missed slots are not made up for (misfire: skip),");
    remarks.add(format!(
        "and a failed command is not tried again. cron sets no time limit; here it is {TIMEOUT}."
    ));
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line, settings)?;
    }
    if let FirstWords { user: Some(user), other: false } = &reader.first_words {
        reader.imported.remarks.add(format!(
            "every command begins with what may be a user, such as {user}: if the lines have a column for it, as in /etc/crontab, import with --user"
        ));
    }
    Ok(reader.imported)
}

impl Reader {
    fn line(&mut self, number: usize, line: &str, settings: &Settings) -> Result<(), String> {
        let line = line.trim_start_matches([' ', '\t']);
        if line.len() > LINE_MAX_BYTES {
            self.title.clear();
            let why = format!("a line of more than {LINE_MAX_BYTES} bytes");
            return self.imported.leave_out(number, line, why);
        }
        if line.trim().is_empty() {
            self.title.clear();
            return Ok(());
        }
        let is_comment = line.starts_with('#');
        if line.contains(char::REPLACEMENT_CHARACTER) {
            self.title.clear();
            let why = "it is not UTF-8, as definitions are";
            return if is_comment { Ok(()) } else { self.imported.leave_out(number, line, why) };
        }
        if let Some(comment) = line.strip_prefix('#') {
            self.comment(comment);
            return Ok(());
        }
        if let Some((name, value)) = assignment(line) {
            self.title.clear();
            self.assign(name, value);
            return Ok(());
        }
        let title = std::mem::take(&mut self.title).join(" ");
        self.entry((number, line), &title, settings)
    }

    /// A comment is the title of the entry right below it, but for the header of columns that every crontab has.
    fn comment(&mut self, comment: &str) {
        let comment =
            comment.trim_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '-' | '='));
        let looks_like_columns = comment.split_whitespace().take(3).eq(["m", "h", "dom"])
            || comment.starts_with("minute")
            || comment.contains("command to be executed")
            || comment.starts_with(['*', '|', '.'])
            || split_fields(comment).is_some_and(|(times, _)| {
                times.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '*' | '@'))
            });
        if comment.is_empty() || looks_like_columns {
            self.title.clear();
        } else if self.title.iter().map(String::len).sum::<usize>() < 4 * TITLE_MAX_CHARS {
            self.title.push(comment.to_owned());
        }
    }

    fn assign(&mut self, name: String, value: String) {
        let remark = match name.as_str() {
            // Mails of nobody are not missed.
            "MAILTO" | "MAILFROM" if value.is_empty() => None,
            "CRON_TZ" if value.is_empty() => Some(
                "CRON_TZ= is empty: the entries below it are read on the clock of the machine"
                    .into(),
            ),
            "MAILTO" | "MAILFROM" => Some(format!(
                "{name}={value}: nothing is mailed; `cronstream run` shows what a run printed, and docs/reference/metrics.md what to alert on"
            )),
            "TZ" => Some(format!(
                "TZ={value} is handed to the commands; as in Debian's cron it moves no slot (CRON_TZ does, elsewhere)"
            )),
            "RANDOM_DELAY" => Some(format!("{name}={value}: give the jobs a jitter instead")),
            _ => None,
        };
        if let Some(remark) = remark {
            self.imported.remarks.add(remark);
        }
        if self.environment.len() < VARIABLES_MAX || self.environment.contains_key(&name) {
            self.environment.insert(name, value);
        } else {
            self.imported
                .remarks
                .add(format!("more than {VARIABLES_MAX} variables; {name} is dropped"));
        }
    }

    fn entry(
        &mut self,
        (number, line): (usize, &str),
        title: &str,
        settings: &Settings,
    ) -> Result<(), String> {
        let logged = line.strip_prefix('-').filter(|it| it.starts_with(begins_times));
        let Some((times, rest)) = split_fields(logged.unwrap_or(line)) else {
            return self.imported.leave_out(number, line, why_no_entry(line));
        };
        if times == "@reboot" {
            let why =
                "no time is meant by it; let a service of the machine's own (systemd) start it";
            return self.imported.leave_out(number, line, why);
        }
        let (user, command) = match settings.with_user {
            true => match rest.split_once([' ', '\t']) {
                Some((user, command)) => (Some(user), command.trim_start_matches([' ', '\t'])),
                None => return self.imported.leave_out(number, line, "a user and no command"),
            },
            false => (None, rest),
        };
        if command.trim().is_empty() {
            return self.imported.leave_out(number, line, "no command");
        }
        self.first_words.see(command);
        let mut entry = self.job(number, (&times, command), title, settings);
        entry.source = Some(line.to_owned());
        if logged.is_some() {
            entry.remarks.add("the `-` before it, which keeps it out of cron's log, is dropped");
        }
        if let Some(user) = user {
            entry.remarks.add(format!(
                "it ran as {user}: an executor runs its tasks as its own user; run one as {user}, with a queue of its own"
            ));
        }
        entry.identity = format!("{times} {} {command}", user.unwrap_or_default());
        self.imported.add(entry)
    }

    fn job(
        &self,
        line: usize,
        (times, command): (&str, &str),
        title: &str,
        settings: &Settings,
    ) -> Entry {
        let label = names::of_command(&split_percent(command).0);
        let mut entry = Entry { line, label, ..Entry::default() };
        if !title.is_empty() {
            entry.set("title", title.chars().take(TITLE_MAX_CHARS).collect::<String>());
        }
        entry.set("schedule", json!({ "cron": times }));
        let own = self.environment.get("CRON_TZ").filter(|zone| !zone.is_empty());
        let zone = own.or(settings.time_zone.as_ref());
        if let Some(zone) = zone {
            entry.set("time_zone", zone.as_str());
        }
        entry.set("overlap", "allow");
        entry.set("misfire", json!({ "policy": "skip" }));
        entry.set("timeout", TIMEOUT);
        entry.set("max_attempts", 1);
        if let Some(range) = schedule::wrapping_range(times) {
            entry
                .remarks
                .add(format!("{range} wraps around here; Debian's cron never runs such a line"));
        }
        if let Some(piece) = schedule::refused_by_debian(times).filter(|_| !times.starts_with('@'))
        {
            entry
                .remarks
                .add(format!("Debian's cron refuses {piece}, and has never run such a line"));
        }
        entry.task = Some(self.task(command, &mut entry));
        entry
    }

    /// The command as a task: by the shell, with the variables above it, and its own standard input.
    fn task(&self, command: &str, entry: &mut Entry) -> Task {
        let (script, input) = split_percent(command);
        let script = match input {
            Some(input) => with_input(&script, &input),
            None => script,
        };
        entry.remarks.add(format!("runs: {}", script.lines().next().unwrap_or_default()));
        let mut env = self.environment.clone();
        for not_for_commands in ["MAILTO", "MAILFROM", "CRON_TZ", "RANDOM_DELAY"] {
            env.remove(not_for_commands);
        }
        // The executor sets these itself, or the file may not name them.
        env.retain(|name, _| !name.starts_with("CRON_") && name != "TRACEPARENT");
        let shell = env.get("SHELL").cloned().unwrap_or_else(|| "/bin/sh".to_owned());
        env.entry("PATH".to_owned()).or_insert_with(|| "/usr/bin:/bin".to_owned());
        let command = vec![shell, "-c".to_owned(), script];
        Task { command, was: None, cwd: env.get("HOME").cloned(), env }
    }
}

impl FirstWords {
    fn see(&mut self, command: &str) {
        let (first, rest) = command.split_once([' ', '\t']).unwrap_or((command, ""));
        let plain = |byte: u8| byte.is_ascii_lowercase() || b"-_".contains(&byte);
        let may_be_user = first.bytes().all(plain) && !rest.trim().is_empty();
        self.other |= !may_be_user;
        if self.user.is_none() && USERS.contains(&first) {
            self.user = Some(first.to_owned());
        }
    }
}

fn begins_times(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '*' | '@')
}

/// Why a line is no entry.
fn why_no_entry(line: &str) -> String {
    let word = line.split([' ', '\t']).next().unwrap_or(line);
    if word.starts_with('@') {
        let small = word.to_ascii_lowercase();
        let known = MACROS.contains(&small.as_str()) || small == "@reboot";
        return match known {
            true if small == word => "no command".to_owned(),
            true => format!("cron knows {small} in small letters only"),
            false => format!("{word} is no time that cron knows"),
        };
    }
    let fields: Vec<&str> = line.split([' ', '\t']).filter(|it| !it.is_empty()).take(6).collect();
    let named = fields.iter().zip(FIELDS).find(|(field, _)| !is_time(field));
    match (named, fields.len()) {
        (Some((field, name)), 6) if line.starts_with(begins_times) => match field.split_once('#') {
            Some((before, rest)) if !before.is_empty() && is_time(before) => format!(
                "{name} {field}: Debian's cron drops #{rest}, and runs it as if it were {before}; here {field} is one day of the month: write which of them is meant"
            ),
            Some(_) | None => format!("{field} is no {name}"),
        },
        (None, 5) if line.starts_with(begins_times) => "no command".to_owned(),
        (Some(_) | None, _) => {
            "neither a variable, a comment, nor five time fields and a command".to_owned()
        }
    }
}

/// Whether a field has the letters of times.
fn is_time(field: &str) -> bool {
    field.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"*,-/~?".contains(&byte))
}

/// `NAME = value`, quoted or not; none where the line is an entry.
fn assignment(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let name = unquoted(name.trim());
    let legal = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || !legal || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    Some((name.to_owned(), unquoted(value.trim()).to_owned()))
}

fn unquoted(text: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text)
}

/// The time fields of an entry, single-spaced, and what stands behind them.
fn split_fields(line: &str) -> Option<(String, &str)> {
    let blank = [' ', '\t'];
    if line.starts_with('@') {
        let (word, rest) = line.split_once(blank)?;
        let known = MACROS.contains(&word) || word == "@reboot";
        return known.then(|| (word.to_owned(), rest.trim_start_matches(blank)));
    }
    let (mut fields, mut rest) = (Vec::with_capacity(5), line);
    while fields.len() < 5 {
        let (field, behind) = rest.split_once(blank)?;
        fields.push(field);
        rest = behind.trim_start_matches(blank);
    }
    let is_times = fields.iter().all(|field| is_time(field));
    (is_times && !rest.is_empty()).then(|| (fields.join(" "), rest))
}

/// A command with its `%` read as cron does: the first one begins its standard input, the others are new lines there;
/// `\%` is the sign itself.
fn split_percent(command: &str) -> (String, Option<String>) {
    let (mut parts, mut escaped) = (vec![String::new()], false);
    for c in command.chars() {
        let part = parts.len() - 1;
        match (c, escaped) {
            ('%', true) => {
                parts[part].pop();
                parts[part].push('%');
            }
            ('%', false) => parts.push(String::new()),
            (other, _) => parts[part].push(other),
        }
        escaped = c == '\\' && !escaped;
    }
    let command = parts.remove(0).trim_end().to_owned();
    if parts.is_empty() { (command, None) } else { (command, Some(parts.join("\n"))) }
}

/// A command that reads a text, as a script of its own; cron ends the text's last line where it is not ended.
fn with_input(command: &str, input: &str) -> String {
    let mut end = "CRON_STDIN".to_owned();
    while input.lines().any(|line| line == end) {
        end.push('_');
    }
    let ended = if input.is_empty() || input.ends_with('\n') { "" } else { "\n" };
    format!("{{ {command}\n}} <<'{end}'\n{input}{ended}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_begins_the_input_and_an_escaped_one_is_itself() {
        for (command, script, input) in [
            ("date +\\%F", "date +%F", None),
            ("mail -s a b%Dear all,%%bye", "mail -s a b", Some("Dear all,\n\nbye")),
            ("cat%", "cat", Some("")),
            ("echo a\\\\", "echo a\\\\", None),
            ("x%50\\%", "x", Some("50%")),
            ("x  %a% ", "x", Some("a\n ")),
        ] {
            let (got, behind) = split_percent(command);
            assert_eq!((got.as_str(), behind.as_deref()), (script, input), "{command}");
        }
    }

    #[test]
    fn the_input_cannot_end_its_own_document() {
        let script = with_input("cat", "a\nCRON_STDIN\nb");
        assert_eq!(script, "{ cat\n} <<'CRON_STDIN_'\na\nCRON_STDIN\nb\nCRON_STDIN_");
    }

    #[test]
    fn the_last_line_of_the_input_is_ended_once_and_no_input_has_no_line() {
        for (command, reads) in [("cat%a%b", "a\nb\n"), ("cat%a%b%", "a\nb\n"), ("cat%", "")] {
            let (script, input) = split_percent(command);
            let script = with_input(&script, &input.unwrap());
            let ran = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(ran.stdout).unwrap(), reads, "{command}: {script}");
        }
    }

    #[test]
    fn an_entry_is_no_variable_and_a_variable_no_entry() {
        assert_eq!(assignment("PATH=/bin"), Some(("PATH".into(), "/bin".into())));
        assert_eq!(assignment("MAILTO = \"\""), Some(("MAILTO".into(), String::new())));
        assert_eq!(assignment("0 3 * * * A=b run"), None);
        assert_eq!(assignment("@daily A=b run"), None);
        let split = |line| split_fields(line).map(|(times, rest)| (times, rest.to_owned()));
        assert_eq!(split("0  3\t* * *\t x  y"), Some(("0 3 * * *".into(), "x  y".into())));
        for line in ["0 3 * *", "0 3 * * *", "@daily", "@fortnightly x", "a b c d {} x", "", "@"] {
            assert_eq!(split(line), None, "{line}");
        }
    }
}

//! The accounts of a broker, made from the one table of rights in nats-config/rights.toml.
//!
//! ```text
//!   executor's account          streams' account            publisher's account
//!   user ── import run.q.> ──►  streams, tickers, operator  ◄── import define.ns.* ── user
//!        ── import ACK… ─────►                              ── _INBOX.user.> ───────►
//! ```
//!
//! Invariant: an account imports exactly the subjects that its role may publish, so a request whose
//! reply subject is forged can reach nothing that its sender could not publish anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

use crate::error::Error;

/// The table as it is committed.
const TABLE: &str = include_str!("../../../nats-config/rights.toml");
/// Asked by nobody; that it is imported keeps the broker from offering an account a JetStream of
/// its own in place of the one that it shares.
const SHADOW: &str = "$JS.API.INFO";
/// What a node answers to and another account may ask.
const STATUS: &str = "$SRV.STATUS.{prefix}";
/// What a node subscribes to in order to answer.
const SERVICES: &str = "$SRV.>";

/// Roles with their rights, and the users that have them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RightsTable {
    role: BTreeMap<String, Role>,
    user: Vec<User>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Role {
    about: String,
    account: String,
    /// Whether verdicts reach its inbox from the streams' account.
    #[serde(default)]
    verdicts: bool,
    publish: Vec<String>,
    subscribe: Vec<String>,
}

/// A user of the broker.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Its name; answers come below `_INBOX.<name>`.
    pub name: String,
    /// Its role.
    pub role: String,
    /// The queue of an executor.
    pub queue: Option<String>,
    /// The namespace of a publisher.
    pub namespace: Option<String>,
}

/// What one user may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// The account it belongs to.
    pub account: String,
    /// The subjects it may publish to.
    pub publish: Vec<String>,
    /// The subjects it may subscribe to.
    pub subscribe: Vec<String>,
}

impl User {
    /// The environment variable in which the broker finds the user's password.
    #[must_use]
    pub fn password_variable(&self) -> String {
        format!("CRONSTREAM_{}_PASSWORD", self.name.to_ascii_uppercase().replace('-', "_"))
    }
}

/// What is rendered of one account.
#[derive(Debug, Default)]
struct Account {
    users: Vec<String>,
    /// Services of the streams' account.
    imports: BTreeSet<String>,
    /// Inboxes that verdicts of the streams' account reach.
    inboxes: BTreeSet<String>,
    answers: bool,
}

impl RightsTable {
    /// The table as it is committed.
    #[must_use]
    pub fn embedded() -> Self {
        Self::parse(TABLE).expect("the embedded table can be read: tested")
    }

    /// Reads a table.
    ///
    /// # Errors
    /// When it is no such table, or a user's name, role, queue or namespace does not fit.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let table: Self = toml::from_str(text).map_err(|error| fault(error.message()))?;
        table.checked()
    }

    /// The same roles with other users.
    ///
    /// # Errors
    /// When a user's name, role, queue or namespace does not fit.
    pub fn with_users(self, user: Vec<User>) -> Result<Self, Error> {
        Self { user, ..self }.checked()
    }

    /// The users.
    #[must_use]
    pub fn users(&self) -> &[User] {
        &self.user
    }

    /// What a user may do in the installation with this prefix.
    ///
    /// # Errors
    /// When its role is not in the table, or needs a queue or namespace that it does not have.
    pub fn rights(&self, user: &User, prefix: &str) -> Result<Rights, Error> {
        let role = self.role_of(user)?;
        let fill = |text: &String| fill(text, user, prefix);
        Ok(Rights {
            account: fill(&role.account)?,
            publish: role.publish.iter().map(fill).collect::<Result<_, _>>()?,
            subscribe: role.subscribe.iter().map(fill).collect::<Result<_, _>>()?,
        })
    }

    /// The `accounts` block of nats-server's configuration for the installation with this prefix.
    ///
    /// # Errors
    /// When the prefix is not a word.
    pub fn render(&self, prefix: &str) -> Result<String, Error> {
        word("prefix", prefix)?;
        let main = prefix.to_ascii_uppercase();
        let status = STATUS.replace("{prefix}", prefix);
        let mut accounts: BTreeMap<String, Account> = BTreeMap::new();
        for user in &self.user {
            let rights = self.rights(user, prefix)?;
            let account = accounts.entry(rights.account.clone()).or_default();
            let role = self.role_of(user)?;
            account.users.push(render_user(user, &role.about, &rights));
            if rights.account != main {
                let crossing = rights.publish.iter().filter(|subject| crosses(subject, prefix));
                account.imports.extend(crossing.cloned());
                account.imports.insert(SHADOW.into());
                account.answers |= rights.subscribe.iter().any(|subject| subject == SERVICES);
                let inbox = |subject: &&String| role.verdicts && subject.starts_with("_INBOX.");
                account.inboxes.extend(rights.subscribe.iter().filter(inbox).cloned());
            }
        }
        let streams = accounts.remove(&main).unwrap_or_default();
        let mut text =
            String::from("# Made from rights.toml, which says how: do not edit.\naccounts {\n");
        write_streams(&mut text, (&main, &streams), &accounts, &status);
        for (name, account) in &accounts {
            write_outside(&mut text, (name, account), &main, &status);
        }
        text.push_str("}\n");
        Ok(text)
    }

    fn role_of(&self, user: &User) -> Result<&Role, Error> {
        let unknown = || fault(format!("user {}: no role {:?}", user.name, user.role));
        self.role.get(&user.role).ok_or_else(unknown)
    }

    fn checked(self) -> Result<Self, Error> {
        let mut names = BTreeSet::new();
        for user in &self.user {
            word("user", &user.name)?;
            for (what, name) in [("queue", &user.queue), ("namespace", &user.namespace)] {
                name.as_deref().map_or(Ok(()), |name| word(what, name))?;
            }
            if !names.insert(&user.name) {
                return Err(fault(format!("user {} stands twice", user.name)));
            }
            self.rights(user, "cron")?;
        }
        Ok(self)
    }
}

fn fault(problem: impl Into<String>) -> Error {
    Error::Rights { problem: problem.into() }
}

/// Names stand in subjects and in the configuration, so they are letters, digits, `-` and `_`.
fn word(what: &str, name: &str) -> Result<(), Error> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(legal) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(fault(format!("{what} {shown:?} has other characters than letters, digits, - and _")))
}

fn fill(text: &str, user: &User, prefix: &str) -> Result<String, Error> {
    let upper = prefix.to_ascii_uppercase();
    let mut filled = text.replace("{prefix}", prefix).replace("{PREFIX}", &upper);
    filled = filled.replace("{user}", &user.name);
    for (mark, name) in [("{queue}", &user.queue), ("{namespace}", &user.namespace)] {
        if let Some(name) = name {
            filled = filled.replace(mark, name);
        }
    }
    if filled.contains(['{', '}', '"', '\\']) {
        return Err(fault(format!("user {}: nothing to put into {filled:?}", user.name)));
    }
    Ok(filled)
}

/// Whether what is published on a subject has to get into the streams' account.
fn crosses(subject: &str, prefix: &str) -> bool {
    let own = subject.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
    own || subject.starts_with("$JS.")
        || subject.starts_with("$SRV.")
        || subject.starts_with("$KV.")
}

fn render_user(user: &User, about: &str, rights: &Rights) -> String {
    let list = |subjects: &[String]| {
        let lines = subjects.iter().map(|subject| format!("            \"{subject}\"\n"));
        lines.collect::<String>()
    };
    format!(
        "      # {role}: {about}\n      {{\n        user: {name}, password: ${variable}\n        \
         permissions: {{\n          publish: {{ allow: [\n{publish}          ] }}\n          \
         subscribe: {{ allow: [\n{subscribe}          ] }}\n        }}\n      }}\n",
        role = user.role,
        name = user.name,
        variable = user.password_variable(),
        publish = list(&rights.publish),
        subscribe = list(&rights.subscribe),
    )
}

/// Questions with more than one answer.
fn response_type(subject: &str) -> &'static str {
    let many = subject.starts_with("$SRV.") || subject.contains(".MSG.NEXT.");
    if many { ", response_type: stream" } else { "" }
}

fn write_streams(
    text: &mut String,
    (main, streams): (&str, &Account),
    others: &BTreeMap<String, Account>,
    status: &str,
) {
    let mut services: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, account) in others {
        for subject in &account.imports {
            services.entry(subject).or_default().push(name);
        }
    }
    // Writing to a text cannot fail.
    let mut line = |it: std::fmt::Arguments<'_>| text.write_fmt(it).expect("a text takes it");
    line(format_args!("  {main} {{\n    jetstream: enabled\n    users: [\n"));
    line(format_args!("{}    ]\n    exports: [\n", streams.users.concat()));
    for (subject, accounts) in services {
        let (accounts, response) = (accounts.join(", "), response_type(subject));
        line(format_args!(
            "      {{ service: \"{subject}\"{response}, accounts: [{accounts}] }}\n"
        ));
    }
    for (name, account) in others {
        for inbox in &account.inboxes {
            line(format_args!("      {{ stream: \"{inbox}\", accounts: [{name}] }}\n"));
        }
    }
    line(format_args!("    ]\n    imports: [\n"));
    for (name, _) in others.iter().filter(|(_, account)| account.answers) {
        line(format_args!("      {{ service: {{ account: {name}, subject: \"{status}\" }} }}\n"));
    }
    line(format_args!("    ]\n  }}\n"));
}

fn write_outside(text: &mut String, (name, account): (&str, &Account), main: &str, status: &str) {
    let mut line = |it: std::fmt::Arguments<'_>| text.write_fmt(it).expect("a text takes it");
    line(format_args!("  {name} {{\n    users: [\n{}    ]\n", account.users.concat()));
    if account.answers {
        let response = response_type(status);
        line(format_args!(
            "    exports: [\n      {{ service: \"{status}\"{response}, accounts: [{main}] }}\n    ]\n"
        ));
    }
    line(format_args!("    imports: [\n"));
    for subject in &account.imports {
        line(format_args!("      {{ service: {{ account: {main}, subject: \"{subject}\" }} }}\n"));
    }
    for inbox in &account.inboxes {
        line(format_args!("      {{ stream: {{ account: {main}, subject: \"{inbox}\" }} }}\n"));
    }
    line(format_args!("    ]\n  }}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_accounts_are_those_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../nats-config/accounts.conf");
        let rendered = RightsTable::embedded().render("cron").unwrap();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &rendered).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == rendered, "{path} is not made from rights.toml: run with UPDATE=1");
    }

    fn user(name: &str, role: &str) -> User {
        User { name: name.into(), role: role.into(), queue: None, namespace: None }
    }

    #[test]
    fn a_publisher_has_its_verbs_by_name() {
        let table = RightsTable::embedded();
        let ann = User { namespace: Some("billing".into()), ..user("ann", "publisher") };
        let rights = table.rights(&ann, "acme").unwrap();
        assert_eq!(rights.account, "ACME_PUBLISHER_billing");
        assert!(rights.publish.contains(&"acme.define.billing.*".to_owned()));
        assert!(!rights.publish.iter().any(|subject| subject.starts_with("acme.*")));
        assert_eq!(rights.subscribe, ["_INBOX.ann.>"]);
    }

    #[test]
    fn a_user_that_does_not_fit_is_refused() {
        let fits = |user| RightsTable::embedded().with_users(vec![user]).is_ok();
        assert!(fits(user("a", "reader")));
        assert!(!fits(user("a", "executor")), "without a queue");
        assert!(!fits(user("a", "king")));
        assert!(!fits(user("a.>", "reader")));
        assert!(!fits(user("a\" }", "reader")));
        let queue = Some("x.>".to_owned());
        assert!(!fits(User { queue, ..user("a", "executor") }));
        let twice = vec![user("a", "reader"), user("a", "ticker")];
        assert!(RightsTable::embedded().with_users(twice).is_err());
    }

    #[test]
    fn only_the_roles_beside_the_streams_have_no_account_of_their_own() {
        let table = RightsTable::embedded();
        let beside = table.role.iter().filter(|(_, role)| role.account == "{PREFIX}");
        assert_eq!(
            beside.map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["operator", "ticker"]
        );
    }
}

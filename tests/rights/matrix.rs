//! Every user against every subject: allowed is what the table says and nothing else.
//!
//! Bodies are no JSON and requests to JetStream name no reply, so what is allowed has no effect that matters here.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cronstream_server::RightsTable;

use crate::stage::{Stage, users};

/// Subjects that somebody who means harm would try, beside those of the table.
const TRIED: &[&str] = &[
    // A wildcard in the verb's place would match these for a publisher of `billing`.
    "cron.job.billing.x",
    "cron.history.billing.x",
    "cron.skipped.billing.x",
    "cron.rejected.billing.x",
    "cron.held.billing.x.1800000000000",
    // The subjects of a queue that is called like the namespace, and of another queue.
    "cron.fire.billing.demo.x",
    "cron.fire.default.billing.x",
    "cron.run.billing.demo.x.01a00000-0000-8000-8000-000000000000.0",
    "cron.run.default.billing.x.01a00000-0000-8000-8000-000000000000.0",
    "cron.dead.billing.demo.x.01a00000-0000-8000-8000-000000000000.0",
    "cron.define.demo.x",
    "cron.define.billing",
    "cron.define.billing.x.y",
    "cron.define._._",
    "cron.cancel.demo.x",
    "cron.skip.demo.x",
    "cron.shift.demo.x",
    "cron.backfill.demo.x",
    "cron.calendar.demo.x",
    "cron.calendar-delete.demo.x",
    "cron.calendar.billing",
    "cron.calendar.billing.x.y",
    "cron.object.calendar.billing.x",
    "cron.object.calendar.demo.x",
    "cron.object-history.calendar.billing.x",
    "cron.cursor.0",
    "cron.meta",
    "cron.trace.ticker",
    "cron.trace.executor",
    "cron.trace.relay",
    "$KV.CRON_LEASES.partition.0",
    "$JS.API.INFO",
    "$JS.API.STREAM.NAMES",
    "$JS.API.STREAM.CREATE.MINE",
    "$JS.API.STREAM.UPDATE.CRON_LOG",
    "$JS.API.STREAM.PURGE.CRON_LOG",
    "$JS.API.STREAM.DELETE.CRON_LOG",
    "$JS.API.STREAM.MSG.DELETE.CRON_LOG",
    "$JS.API.STREAM.MSG.GET.CRON_RUNS",
    "$JS.API.STREAM.SNAPSHOT.CRON_LOG",
    "$JS.API.STREAM.RESTORE.CRON_LOG",
    "$JS.API.STREAM.LEADER.STEPDOWN.CRON_LOG",
    "$JS.API.DIRECT.GET.CRON_RUNS",
    "$JS.API.DIRECT.GET.CRON_RUNS.cron.run.billing.demo.x.1.0",
    "$JS.API.DIRECT.GET.CRON_RUNS.cron.run.default.demo.x.1.0",
    "$JS.API.DIRECT.GET.CRON_LOG.cron.job.demo.x",
    "$JS.API.DIRECT.GET.CRON_LOG.cron.object.calendar.demo.x",
    "$JS.API.DIRECT.GET.CRON_LOG.cron.object-history.calendar.billing.x",
    "$JS.API.DIRECT.GET.CRON_LOG.cron.cursor.0",
    "$JS.API.CONSUMER.CREATE.CRON_LOG",
    "$JS.API.CONSUMER.CREATE.CRON_LOG.default",
    "$JS.API.CONSUMER.CREATE.CRON_LOG.default.cron.fire.billing.x.y",
    "$JS.API.CONSUMER.CREATE.CRON_LOG.billing.cron.fire.billing.x.y",
    "$JS.API.CONSUMER.CREATE.CRON_RUNS.mine.cron.run.x",
    "$JS.API.CONSUMER.DURABLE.CREATE.CRON_LOG.default",
    "$JS.API.CONSUMER.DELETE.CRON_LOG.default",
    "$JS.API.CONSUMER.PAUSE.CRON_LOG.default",
    "$JS.API.CONSUMER.RESET.CRON_LOG.default",
    "$JS.API.CONSUMER.UNPIN.CRON_LOG.default",
    "$JS.API.CONSUMER.LIST.CRON_LOG",
    "$JS.API.CONSUMER.INFO.CRON_LOG.billing",
    "$JS.API.CONSUMER.MSG.NEXT.CRON_LOG.billing",
    "$JS.API.CONSUMER.MSG.NEXT.CRON_LOG.default",
    "$JS.ACK.CRON_LOG.billing.1.1.1.1.0",
    "$JS.ACK._.hash.CRON_LOG.billing.1.1.1.1.0",
    "$JS.ACK.CRON_LOG.default.1.1.1.1.0",
    "$JS.ACK._.hash.CRON_LOG.default.1.1.1.1.0",
    "$JS.FC.CRON_LOG.default.1",
    "$SRV.PING",
    "$SRV.STATUS.cron",
    "$SRV.RELEASE.cron",
    "$SYS.REQ.USER.INFO",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.ACCOUNT.CRON.CONNZ",
    "_INBOX.operator.x",
    "_INBOX.executor-billing.x",
    "_R_.x",
    "anything",
];

/// What somebody who means harm would listen to.
const HEARD: &[&str] = &[
    ">",
    "*",
    "_INBOX.>",
    "_INBOX.*.>",
    "_R_.>",
    "cron.>",
    "cron.define.>",
    "cron.run.>",
    "cron.run.billing.>",
    "cron.run.default.>",
    "cron.fire.default.>",
    "$JS.>",
    "$JS.ACK.>",
    "$JS.API.>",
    "$JS.EVENT.>",
    "$KV.>",
    "$SRV.>",
    "$SRV.STATUS.cron",
    "$SRV.RELEASE.cron",
    "$SYS.>",
];

/// Whether one of the patterns stands for every subject of `subject`, by the rules of NATS.
pub(crate) fn allowed(patterns: &[String], subject: &str) -> bool {
    patterns.iter().any(|pattern| covers(pattern, subject))
}

fn covers(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(token)) if token != ">" => {}
            (Some(token), Some(other)) if token == other => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

/// A subject that a pattern stands for.
pub(crate) fn literal(pattern: &str) -> String {
    let token = |token: &str| match token {
        "*" => "x".to_owned(),
        ">" => "x.y".to_owned(),
        other => other.to_owned(),
    };
    pattern.split('.').map(token).collect::<Vec<_>>().join(".")
}

#[tokio::test]
async fn a_user_may_do_exactly_what_the_table_says() -> Result<()> {
    let table = RightsTable::embedded().with_users(users())?;
    let stage = Stage::start(&table, "").await?;
    let (mut published, mut heard) = (BTreeSet::new(), BTreeSet::new());
    published.extend(TRIED.iter().map(ToString::to_string));
    heard.extend(HEARD.iter().map(ToString::to_string));
    for user in table.users() {
        let rights = table.rights(user, "cron")?;
        published.extend(rights.publish.iter().map(|pattern| literal(pattern)));
        heard.extend(rights.subscribe.iter().cloned());
        heard.extend(rights.subscribe.iter().map(|pattern| literal(pattern)));
    }
    let mut wrong = Vec::new();
    for user in table.users() {
        let rights = table.rights(user, "cron")?;
        let mut wire = stage.wire(&user.name)?;
        let mut note = |what: &str, subject: &str, says: bool, refusal: Option<String>| {
            if says == refusal.is_some() {
                wrong.push(format!("{} {what} {subject}: {says}, but {refusal:?}", user.name));
            }
            if let Some(refusal) = refusal.filter(|refusal| !refusal.contains(subject)) {
                wrong.push(format!("{} {what} {subject}: the server says {refusal}", user.name));
            }
        };
        for subject in &published {
            let refusal = wire.publish(subject, None, b"{")?;
            note("publishes", subject, allowed(&rights.publish, subject), refusal);
        }
        for subject in &heard {
            let refusal = wire.subscribe(subject)?;
            note("hears", subject, allowed(&rights.subscribe, subject), refusal);
        }
    }
    ensure!(wrong.is_empty(), "not as the table says:\n  {}", wrong.join("\n  "));
    Ok(())
}

#[tokio::test]
async fn a_user_without_password_or_name_is_refused() -> Result<()> {
    let table = RightsTable::embedded().with_users(users())?;
    let stage = Stage::start(&table, "").await?;
    for (user, password) in [("", ""), ("operator", ""), ("operator", "pw-ticker"), ("x", "pw-x")] {
        let refused = stage.wire_with(user, password);
        ensure!(refused.is_err(), "{user:?} with password {password:?} is let in");
    }
    Ok(())
}

/// Streams refuse to be rolled up, but those that tickers write.
#[tokio::test]
async fn only_tickers_can_roll_up_what_others_have_written() -> Result<()> {
    let table = RightsTable::embedded().with_users(users())?;
    let stage = Stage::start(&table, "").await?;
    let mut rolled = BTreeSet::new();
    for user in table.users() {
        let mut wire = stage.wire(&user.name)?;
        let rights = table.rights(user, "cron")?;
        let stored =
            |subject: &&String| subject.starts_with("cron.") || subject.starts_with("$KV.");
        for subject in rights.publish.iter().filter(stored).map(|pattern| literal(pattern)) {
            for rollup in ["all", "sub"] {
                let answer = wire.request(&subject, &[("Nats-Rollup", rollup)], b"{")?;
                let text = answer.map(String::from_utf8).transpose()?.unwrap_or_default();
                if text.contains("\"seq\"") && !text.contains("\"error\"") {
                    rolled.insert((user.role.clone(), subject.clone()));
                } else if !text.is_empty() {
                    ensure!(text.contains("rollup not permitted"), "{subject} {rollup}: {text}");
                }
            }
        }
    }
    let others: Vec<_> = rolled.iter().filter(|(role, _)| role != "ticker").collect();
    ensure!(
        others == [&("operator".to_owned(), "cron.meta".to_owned())],
        "others than tickers rolled up: {others:?}"
    );
    ensure!(rolled.iter().any(|(role, _)| role == "ticker"), "not even a ticker rolls up");
    Ok(())
}

#[test]
fn a_pattern_covers_what_the_broker_says_it_does() {
    for (pattern, subject, expected) in [
        ("a.>", "a.b.c", true),
        ("a.>", "a", false),
        ("a.*", "a.b", true),
        ("a.*", "a.>", false),
        ("a.*.c", "a.b.c", true),
        ("a.b", "a.b.c", false),
        (">", "a", true),
    ] {
        assert_eq!(covers(pattern, subject), expected, "{pattern} {subject}");
    }
    assert_eq!(literal("a.*.>"), "a.x.x.y");
}

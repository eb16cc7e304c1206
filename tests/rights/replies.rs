//! The reply subject of a request is the asker's to choose, and the broker publishes its answer there with its own
//! rights. What an executor wrote into its own run can so be copied anywhere: that is why roles that are not trusted
//! with the streams have an account of their own.

use anyhow::{Result, ensure};
use cronstream_server::{RightsTable, User};
use serde_json::{Value, json};

use crate::matrix::{allowed, literal};
use crate::stage::{Stage, named, users};
use crate::wire::Wire;

/// What a forger wants to write.
const TARGETS: &[&str] = &[
    "cron.cursor.0",
    "cron.job.forged.x",
    "cron.fire.forged.demo.x",
    "cron.run.forged.demo.x.01a00000-0000-8000-8000-000000000000.0",
    "cron.define.forged.x",
    "cron.dead.forged.demo.x.1.0",
    "$KV.CRON_LEASES.partition.0",
];

/// Sends everything that a user may send with a reply subject that it may not publish to. Returns after the broker
/// has answered a later request of the same user.
fn forge(wire: &mut Wire, table: &RightsTable, user: &User) -> Result<()> {
    let rights = table.rights(user, "cron")?;
    let own: Vec<String> = rights.publish.iter().map(|pattern| literal(pattern)).collect();
    // What is to be copied has to be there first.
    for subject in own.iter().filter(|subject| subject.starts_with("cron.run.")) {
        wire.request(subject, &[], br#"{"forged":true}"#)?;
    }
    for target in TARGETS.iter().filter(|target| !allowed(&rights.publish, target)) {
        for subject in &own {
            for body in
                [&b""[..], br#"{"batch":1,"no_wait":true}"#, br#"{"last_by_subj":"cron.meta"}"#]
            {
                wire.publish(subject, Some(target), body)?;
            }
        }
    }
    for subject in own.iter().filter(|subject| subject.starts_with("$JS.API.")) {
        wire.request(subject, &[], b"")?;
    }
    Ok(())
}

/// The last message on each target, as far as there is one.
fn forged(operator: &mut Wire) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for target in TARGETS {
        for stream in ["CRON_LOG", "CRON_RUNS", "CRON_COMMANDS", "CRON_DEAD", "KV_CRON_LEASES"] {
            let question = json!({ "last_by_subj": target }).to_string();
            let subject = format!("$JS.API.STREAM.MSG.GET.{stream}");
            let answer = operator.request(&subject, &[], question.as_bytes())?;
            let answer: Value = serde_json::from_slice(&answer.unwrap_or_default())?;
            if answer.get("message").is_some() {
                found.push(format!("{target} in {stream}"));
            }
        }
    }
    Ok(found)
}

#[tokio::test]
async fn nobody_outside_the_streams_account_can_forge_by_a_reply_subject() -> Result<()> {
    let table = RightsTable::embedded().with_users(users())?;
    let stage = Stage::start(&table, "").await?;
    let mut operator = stage.wire("operator")?;
    for user in table.users().iter().filter(|user| !["operator", "ticker"].contains(&&*user.role)) {
        forge(&mut stage.wire(&user.name)?, &table, user)?;
        let forged = forged(&mut operator)?;
        ensure!(forged.is_empty(), "{} has written {forged:?}", user.name);
    }
    Ok(())
}

/// The trial before works: with all users in one account, an executor forges a cursor and another queue's run though
/// its permissions allow neither.
#[tokio::test]
async fn in_one_account_permissions_alone_would_not_hold() -> Result<()> {
    let text = include_str!("../../nats-config/rights.toml");
    let one_account: Vec<String> = text
        .lines()
        .map(|line| match line.strip_prefix("account = ") {
            Some(_) => "account = \"{PREFIX}\"".to_owned(),
            None => line.to_owned(),
        })
        .collect();
    let table = RightsTable::parse(&one_account.join("\n"))?.with_users(users())?;
    let stage = Stage::start(&table, "").await?;
    let mut operator = stage.wire("operator")?;
    let user = named("executor-default")?;
    forge(&mut stage.wire(&user.name)?, &table, &user)?;
    let forged = forged(&mut operator)?;
    for target in ["cron.cursor.0", "cron.run.forged"] {
        ensure!(forged.iter().any(|it| it.starts_with(target)), "{target} is not in {forged:?}");
    }
    Ok(())
}

/// The right to make a durable is bound to its name and filter; what the body says instead is refused.
#[tokio::test]
async fn an_executor_cannot_turn_its_durable_to_another_queue() -> Result<()> {
    let table = RightsTable::embedded().with_users(users())?;
    let stage = Stage::start(&table, "").await?;
    let mut executor = stage.wire("executor-default")?;
    let subject = "$JS.API.CONSUMER.CREATE.CRON_LOG.default.cron.fire.default.>";
    let mut create = |name: &str, filters: Value| {
        let mut config = json!({ "name": name, "durable_name": name, "ack_policy": "explicit" });
        config
            .as_object_mut()
            .expect("an object")
            .extend(filters.as_object().cloned().expect("one"));
        let body = json!({ "stream_name": "CRON_LOG", "config": config }).to_string();
        let answer = executor.request(subject, &[], body.as_bytes())?.unwrap_or_default();
        anyhow::Ok(serde_json::from_slice::<Value>(&answer)?)
    };
    for (name, filters) in [
        ("default", json!({ "filter_subject": "cron.fire.billing.>" })),
        ("default", json!({ "filter_subject": ">" })),
        ("default", json!({ "filter_subjects": ["cron.fire.default.>", "cron.fire.billing.>"] })),
        ("default", json!({})),
        ("billing", json!({ "filter_subject": "cron.fire.default.>" })),
    ] {
        let answer = create(name, filters.clone())?;
        ensure!(answer.get("error").is_some(), "{name} {filters}: {answer}");
    }
    let answer = create("default", json!({ "filter_subject": "cron.fire.default.>" }))?;
    ensure!(answer.get("error").is_none(), "not even its own: {answer}");
    Ok(())
}

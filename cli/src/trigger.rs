//! `trigger`: run a job now.

use std::path::Path;
use std::time::Duration;

use cronstream_schemas::command::{self, Command, Verb};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::json::{Json, OPAQUE_MAX_BYTES};

use crate::args;
use crate::bounded;
use crate::error::Error;
use crate::jobs;
use crate::send::{Granted, Order, granted};
use crate::session::Session;
use crate::wait;

pub(crate) async fn trigger(session: &Session, trigger: &args::Trigger) -> Result<(), Error> {
    let job = &trigger.job;
    let body = body(trigger)?;
    let bus = session.bus().await?;
    jobs::if_readable(&bus, job).await?;
    let order = Order { verb: Verb::Trigger, job: job.clone(), body, expected: None };
    let verdict = order.send(&bus, session.timeout).await?;
    let what = format!("trigger {job}");
    let Granted::Run(run) = granted(&verdict, &what)? else {
        let problem = "it names no run".into();
        return Err(Error::Unreadable { what: format!("the verdict on {what}"), problem });
    };
    if !trigger.wait {
        return Ok(session.out.object(&verdict, || format!("run {run} of {job}"))?);
    }
    session.out.talk(&format!(
        "run {run} of {job}, waiting for its end for up to {}; if it does not start: cronstream doctor",
        trigger.wait_timeout
    ));
    let within: Duration = trigger.wait_timeout.to_duration();
    wait::until_ended(session, &bus, (job, run), within).await
}

/// The command's body.
fn body(trigger: &args::Trigger) -> Result<Vec<u8>, Error> {
    let params = trigger.params.as_deref().map(read_params).transpose()?;
    let body = command::Trigger { params, key: trigger.key.clone() };
    let body = serde_json::to_vec(&body).expect("a trigger has string keys only");
    match Command::decode(Verb::Trigger, &body) {
        Ok(_) => Ok(body),
        Err(faults) => {
            let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
            Err(Error::Usage(faults.join("\n")))
        }
    }
}

fn read_params(text: &str) -> Result<Json, Error> {
    let text = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(path) => bounded::read_file(Path::new(path), OPAQUE_MAX_BYTES as u64)
            .map_err(|source| Error::File { path: path.into(), source })?,
    };
    Json::parse(text.trim()).map_err(|error| Error::Usage(format!("--params is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn body_of(arguments: &[&str]) -> Result<String, String> {
        let all = ["cronstream", "trigger", "a/b"].iter().chain(arguments);
        let args::Verb::Trigger(trigger) = args::Cli::parse_from(all).verb else {
            panic!("another verb")
        };
        match body(&trigger) {
            Ok(body) => Ok(String::from_utf8(body).unwrap()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn params_go_out_bit_for_bit() {
        let params = r#"{"id":12345678901234567890,"v":1.10}"#;
        assert_eq!(body_of(&["--params", params]).unwrap(), format!(r#"{{"params":{params}}}"#));
        assert_eq!(body_of(&[]).unwrap(), "{}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.json");
        std::fs::write(&file, format!("{params}\n")).unwrap();
        let from_file = body_of(&["--params", &format!("@{}", file.display())]).unwrap();
        assert_eq!(from_file, format!(r#"{{"params":{params}}}"#));
    }

    #[test]
    fn what_would_be_rejected_is_refused_before_it_is_sent() {
        assert!(body_of(&["--params", "{1:2}"]).unwrap_err().contains("not JSON"));
        assert!(body_of(&["--key", ""]).unwrap_err().contains("$.key"));
        let large = format!("\"{}\"", "x".repeat(OPAQUE_MAX_BYTES));
        assert!(body_of(&["--params", &large]).unwrap_err().contains("$.params"));
        assert!(
            body_of(&["--params", "@/does/not/exist"]).unwrap_err().contains("/does/not/exist")
        );
    }
}

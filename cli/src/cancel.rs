//! `cancel`: end a run.

use cronstream_schemas::command::{self, Verb};
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::JobId;

use crate::args;
use crate::error::Error;
use crate::history;
use crate::output::confirm;
use crate::send::{Order, granted};
use crate::session::Session;

pub(crate) async fn cancel(session: &Session, cancel: &args::Cancel) -> Result<(), Error> {
    let (job, run) = target(&cancel.what)?;
    let bus = session.bus().await?;
    let job = match job {
        Some(job) => job,
        None => history::job_of(&bus, run).await?,
    };
    confirm(&format!("cancel run {run} of {job}"), cancel.yes)?;
    let body = serde_json::to_vec(&command::Cancel { run }).expect("a cancel has string keys only");
    let order = Order { verb: Verb::Cancel, job: job.clone(), body, expected: None };
    let verdict = order.send(&bus, session.timeout).await?;
    granted(&verdict, &format!("cancel {run} of {job}"))?;
    session.out.object(&verdict, || {
        format!("cancelled run {run} of {job}; an executor that runs it stops within 10 s")
    })?;
    Ok(())
}

/// The run, with its job where that is told.
fn target(what: &[String]) -> Result<(Option<JobId>, RunId), Error> {
    let run = |text: &String| {
        args::run_id(text).map_err(|why| Error::Usage(format!("{text:?} is {why}")))
    };
    match what {
        [one] => Ok((None, run(one)?)),
        [job, one] => {
            let job = job.parse::<JobId>().map_err(|error| Error::Usage(error.to_string()))?;
            Ok((Some(job), run(one)?))
        }
        _ => Err(Error::Usage("one run, or its job and the run".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_may_be_named_with_its_job() {
        let id = "01a31bbc-507b-8dab-b5ee-be7b4b3cf84b";
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(target(&words(id)).unwrap().0, None);
        assert_eq!(target(&words(&format!("a/b {id}"))).unwrap().0, Some("a/b".parse().unwrap()));
        for wrong in ["a/b", "a/b c", &format!("{id} a/b"), "x"] {
            assert!(target(&words(wrong)).is_err(), "{wrong}");
        }
    }
}

//! The example tasks and jobs of `dev`.
//!
//! Invariant: a job that was ever defined is left as it is, also when it was deleted.

use std::net::SocketAddr;

use cronstream_bus::Bus;
use cronstream_schemas::name::JobId;

use crate::error::Error;
use crate::jobs;

/// The subject that the NATS task asks. Its first token can be no installation's prefix.
pub(super) const SUM_SUBJECT: &str = "cronstream-dev.sum";

/// The example jobs with their definitions.
const JOBS: [(&str, &str); 4] = [
    (
        "example/command",
        r#"title: A command every five seconds
task: hello
params: { name: world }
schedule: { every: 5s }"#,
    ),
    (
        "example/berlin",
        r#"title: On the half minute of the clocks in Berlin
task: clock
schedule: { cron: "*/30 * * * * *" }
time_zone: Europe/Berlin"#,
    ),
    (
        "example/http",
        r#"title: An HTTP request every ten seconds
task: echo
params: { greeting: hello }
schedule: { every: 10s }"#,
    ),
    (
        "example/nats",
        r#"title: A NATS request every fifteen seconds
task: sum
params: [1, 2, 3]
schedule: { every: 15s }"#,
    ),
];

/// What they have in common: they are small, and soon forgotten.
const POLICIES: &str = "timeout: 10s\nstart_within: 1m\nretention: 1h";

/// The tasks file; the HTTP echo is at `echo`.
pub(super) fn tasks(echo: SocketAddr) -> String {
    format!(
        r#"# The tasks of `cronstream dev`, written at every start: changes are lost.
# For tasks of your own copy this file and start another executor, on a queue of its own:
#   cronstream executor --queue mine --tasks my-tasks.toml

# A command: params come on standard input, the result goes to the file $CRON_RESULT.
[tasks.hello]
command = ["/bin/sh", "-c", '''
read -r params
printf '{{"hello":%s,"attempt":%s}}' "$params" "$CRON_ATTEMPT" > "$CRON_RESULT"
''']

[tasks.clock]
command = ["/bin/sh", "-c", '''
printf '"it is %s in Berlin"' "$(date +%H:%M:%S)" > "$CRON_RESULT"
''']
env = {{ TZ = "Europe/Berlin" }}
env_pass = ["PATH"]

# An HTTP request: params are the body, a 2xx answer is the result.
[tasks.echo]
http = {{ method = "POST", url = "http://{echo}/echo" }}

# A NATS request: params are the body, the reply is the result.
[tasks.sum]
nats = {{ subject = "{SUM_SUBJECT}" }}
"#
    )
}

/// The example jobs that were never defined, as a file for `apply`; `None` when all of them were.
pub(super) async fn missing(bus: &Bus) -> Result<Option<String>, Error> {
    let mut documents = Vec::new();
    for (name, definition) in JOBS {
        let job: JobId = name.parse().expect("the examples have legal names");
        if jobs::find(bus, &job).await?.is_none() {
            documents.push(format!("job: {name}\n{definition}\n{POLICIES}\n"));
        }
    }
    let head =
        "# Example jobs of `cronstream dev`, defined by `cronstream apply -f` on this file.\n";
    Ok((!documents.is_empty()).then(|| format!("{head}{}", documents.join("---\n"))))
}

#[cfg(test)]
mod tests {
    use cronstream_core::calendar::Calendars;
    use cronstream_core::definition::check;
    use cronstream_schemas::definition::Draft;

    use super::*;
    use crate::documents;

    #[test]
    fn every_example_is_a_definition_that_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        for (name, definition) in JOBS {
            let file = folder.path().join("job.yaml");
            std::fs::write(&file, format!("job: {name}\n{definition}\n{POLICIES}\n")).unwrap();
            let read = documents::read(&[file]).unwrap();
            assert_eq!(read[0].job.to_string(), name);
            assert!(read[0].faults.is_empty());
            check(Draft::decode(read[0].body.as_bytes()), &read[0].job, &Calendars::default())
                .unwrap();
        }
    }

    #[test]
    fn the_tasks_file_names_every_task_of_the_examples() {
        let tasks = tasks("127.0.0.1:1".parse().unwrap());
        for (_, definition) in JOBS {
            let task = definition.lines().find_map(|line| line.strip_prefix("task: ")).unwrap();
            assert!(tasks.contains(&format!("[tasks.{task}]")), "{task}");
        }
    }
}

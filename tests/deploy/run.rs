//! The cluster of docker-compose.yml, run: the commands, environments and mounted files of its services, with local
//! binaries for the images and loopback ports for the names of hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_tests::exclusive::Exclusive;
use cronstream_tests::ports;
use cronstream_tests::process::program;
use cronstream_tests::sink::Sink;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::compose::{Compose, Service, read, root};

/// How long a service may take to do its part.
const PART_MAX: Duration = Duration::from_secs(60);
/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(200);

/// Where the containers would be.
struct Host {
    dir: TempDir,
    compose: Compose,
    nats_server: PathBuf,
    program: PathBuf,
    /// What to write in place of the addresses that the files name, longest first.
    places: Vec<(String, String)>,
    children: BTreeMap<String, Child>,
    /// In the place of Jaeger.
    collector: Sink,
}

impl Host {
    async fn new() -> Result<Self> {
        let compose = Compose::read(|name| format!("pw{name}"))?;
        let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
        let mut places = Vec::new();
        for (name, _) in compose.brokers() {
            for port in [4222, 6222] {
                places.push((format!("{name}:{port}"), format!("127.0.0.1:{}", ports::free()?)));
            }
        }
        let collector = Sink::start().await?;
        places.push(("jaeger:4318".into(), collector.address().into()));
        let dir = tempfile::Builder::new().prefix("cronstream-deploy-").tempdir()?;
        let (nats_server, program) = (binary.path, program()?);
        Ok(Self {
            dir,
            compose,
            nats_server,
            program,
            places,
            children: BTreeMap::new(),
            collector,
        })
    }

    fn placed(&self, text: &str) -> String {
        self.places.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    fn place(&self, address: &str) -> Result<&str> {
        let found = self.places.iter().find(|(from, _)| from == address);
        Ok(&found.with_context(|| format!("no place for {address}"))?.1)
    }

    /// What a path in a service's container is here.
    fn path(&self, service: &Service, path: &str) -> Option<PathBuf> {
        let (from, _) = service.mounts.iter().find(|(_, to)| to == path)?;
        Some(root().join(from.strip_prefix("./")?))
    }

    /// Starts a broker with its mounted files in a folder of its own, in which only addresses differ.
    fn broker(&mut self, name: &str, service: &Service) -> Result<()> {
        let folder = self.dir.path().join(name);
        std::fs::create_dir(&folder)?;
        for (from, to) in &service.mounts {
            let Some(from) = from.strip_prefix("./") else { continue };
            let file = Path::new(to).file_name().context("a mounted file")?;
            let data = folder.join("data");
            let text = read(from)?
                .replace("0.0.0.0:4222", self.place(&format!("{name}:4222"))?)
                .replace("0.0.0.0:6222", self.place(&format!("{name}:6222"))?)
                .replace("127.0.0.1:8222", &format!("127.0.0.1:{}", ports::free()?))
                .replace("\"/data\"", &format!("{data:?}"));
            std::fs::write(folder.join(file), text)?;
        }
        let (program, rest) = service.command.split_first().context("a command")?;
        ensure!(program == "nats-server", "{name} is no broker");
        let mounted = |word: &String| match self.path(service, word) {
            Some(path) => folder.join(path.file_name().unwrap_or_default()),
            None => PathBuf::from(word),
        };
        let mut command = Command::new(&self.nats_server);
        command.args(rest.iter().map(mounted));
        self.spawn(name, service, command)
    }

    fn command(&self, service: &Service) -> Result<Command> {
        let mut command = Command::new(&self.program);
        let words = service.entrypoint.iter().flat_map(|all| &all[1..]).chain(&service.command);
        for word in words {
            match self.path(service, word) {
                Some(path) => command.arg(path),
                None if word.starts_with("0.0.0.0:") => {
                    command.arg(format!("127.0.0.1:{}", ports::free()?))
                }
                None => command.arg(self.placed(word)),
            };
        }
        Ok(command)
    }

    fn spawn(&mut self, name: &str, service: &Service, mut command: Command) -> Result<()> {
        let log = std::fs::File::create(self.dir.path().join(format!("{name}.log")))?;
        command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
        for (variable, value) in &service.environment {
            command.env(variable, self.placed(value));
        }
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        self.children.insert(name.to_owned(), child);
        Ok(())
    }

    /// Runs a verb as the service `operator`, and gives what it printed.
    async fn operator(&self, words: &[&str]) -> Result<std::process::Output> {
        let mut service = self.compose.service("operator")?.clone();
        service.command = words.iter().map(ToString::to_string).collect();
        let mut command = self.command(&service)?;
        command.env_clear().kill_on_drop(true);
        for (variable, value) in &service.environment {
            command.env(variable, self.placed(value));
        }
        let output = timeout(PART_MAX, command.output());
        Ok(output.await.with_context(|| format!("{words:?} hangs"))??)
    }

    /// Asks the operator until the answer is good.
    async fn until(&self, words: &[&str], good: impl Fn(&Value) -> bool) -> Result<()> {
        let deadline = Instant::now() + PART_MAX;
        loop {
            let output = self.operator(words).await?;
            let text = String::from_utf8_lossy(&output.stdout);
            let answer = text.lines().next().map(serde_json::from_str::<Value>).transpose()?;
            if output.status.success() && answer.as_ref().is_some_and(&good) {
                return Ok(());
            }
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(Instant::now() < deadline, "{words:?} says in the end: {text}{errors}");
            sleep(LOOK).await;
        }
    }

    fn logs(&self) -> String {
        let mut logs = String::new();
        for name in self.children.keys() {
            let text =
                cronstream_tests::process::tail(&self.dir.path().join(format!("{name}.log")));
            logs.push_str(&format!("--- {name}\n{text}"));
        }
        logs
    }
}

/// Checks that this program has the verb and the options of a command.
pub(crate) fn knows(program: &Path, words: &[String]) -> Result<()> {
    let verb = words.first().context("a verb")?;
    let help = std::process::Command::new(program).args([verb, "--help"]).output()?;
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    ensure!(help.status.success(), "this program has no verb {verb}");
    let unknown = words.iter().find(|word| word.starts_with("--") && !text.contains(word.as_str()));
    ensure!(unknown.is_none(), "{verb} has no option {unknown:?}");
    Ok(())
}

#[test]
fn our_program_knows_every_verb_and_option() -> Result<()> {
    let (compose, program) = (Compose::read(str::to_owned)?, program()?);
    for (name, service) in compose.ours() {
        knows(&program, &service.command).with_context(|| name.to_owned())?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_described_cluster_runs_a_job() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    let mut host = Host::new().await?;
    let outcome = scenario(&mut host).await;
    outcome.map_err(|error| error.context(host.logs()))
}

async fn scenario(host: &mut Host) -> Result<()> {
    let services = host.compose.services.clone();
    for name in
        host.compose.brokers().into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    {
        host.broker(&name, &services[&name])?;
    }
    // The order of the file's depends_on: init is run when the brokers answer, and tries again until then.
    let deadline = Instant::now() + PART_MAX;
    loop {
        let command = host.command(&services["init"])?;
        host.spawn("init", &services["init"], command)?;
        let init = host.children.get_mut("init").context("init was started")?;
        if timeout(PART_MAX, init.wait()).await.context("init hangs")??.success() {
            break;
        }
        ensure!(Instant::now() < deadline, "init does not succeed");
        sleep(LOOK).await;
    }
    for (name, service) in
        services.iter().filter(|(name, _)| ["ticker", "executor", "relay"].contains(&name.as_str()))
    {
        knows(&host.program, &service.command)?;
        let command = service.command.clone();
        let service = &Service { command, ..service.clone() };
        let replicas = service.raw["deploy"]["replicas"].as_str().unwrap_or("1").parse()?;
        for number in 1..=replicas {
            let mut command = host.command(service)?;
            if name == "ticker" {
                // Containers have host names of their own, from which a ticker takes its name.
                command.args(["--node", &format!("ticker-{number}")]);
            }
            host.spawn(&format!("{name}-{number}"), service, command)?;
        }
    }
    let all_there = |status: &Value| {
        let count = |what: &str| status[what].as_array().map_or(0, Vec::len);
        let led = |share: &Value| share.get("leader").is_some();
        count("tickers") == 2
            && count("executors") == 2
            && status["partitions"].as_array().is_some_and(|shares| shares.iter().all(led))
    };
    host.until(&["status", "--json"], all_there).await?;
    let job = host.dir.path().join("job.json");
    std::fs::write(&job, r#"{"job":"demo/hello","task":"hello","schedule":{"every":"1s"}}"#)?;
    let job = job.to_str().context("a path of this test is UTF-8")?;
    let applied = host.operator(&["apply", "-f", job]).await?;
    ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let succeeded = |run: &Value| run["state"] == "succeeded" && run["attempts"] == 1;
    host.until(&["runs", "demo/hello", "--json", "--number", "1"], succeeded).await?;
    host.collector.taken(PART_MAX).await?;
    // A node that is busy may answer too late to be found.
    let deadline = Instant::now() + PART_MAX;
    loop {
        let doctor = host.operator(&["doctor"]).await?;
        if doctor.status.success() {
            break;
        }
        let found = String::from_utf8_lossy(&doctor.stdout).into_owned();
        ensure!(Instant::now() < deadline, "doctor finds:\n{found}");
        sleep(LOOK).await;
    }
    for (name, child) in &mut host.children {
        ensure!(name == "init" || child.try_wait()?.is_none(), "{name} has ended");
    }
    let logs = host.logs();
    ensure!(!logs.contains("permission denied"), "somebody lacks a right");
    Ok(())
}

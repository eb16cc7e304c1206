//! The task whose effect the checker can see: it writes its own beginning and end into a file.
//!
//! Invariant: the file is written by the task's own process with one `O_APPEND` write a line, so it tells what
//! ran whatever became of executor, broker and streams.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cronstream_schemas::time::Timestamp;

use crate::history::{Effect, Mark};

/// The name that definitions call the task by.
pub const TASK: &str = "effect";
/// The same task, which takes 300 ms, so that faults meet it at work.
pub const WORKING_TASK: &str = "working";
/// The same again, working for three seconds, so that much can happen to its run.
pub const SLOW_TASK: &str = "slow";

/// The script: `sh effect.sh FILE SECONDS STATUS` works for so long and exits with that status.
const SCRIPT: &str = r#"mark() {
  echo "$CRON_RUN $CRON_SLOT $CRON_SHARD $CRON_ATTEMPT $CRON_FENCING_TOKEN $1 $(date +%s%3N)" >> "$FILE"
}
FILE=$1
mark start
[ "$2" = 0 ] || sleep "$2"
mark end
exit "$3"
"#;

/// A folder with the script, the file it writes to, and the tasks file of the executors.
#[derive(Debug, Clone)]
pub struct Effects {
    dir: PathBuf,
}

impl Effects {
    /// Writes script and tasks file into `dir`. The tasks are [`TASK`], [`WORKING_TASK`] and [`SLOW_TASK`].
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(dir: &Path) -> Result<Self> {
        let effects = Self { dir: dir.to_owned() };
        std::fs::write(effects.script(), SCRIPT)?;
        std::fs::write(effects.file(), "")?;
        let mut tasks = String::new();
        for (name, seconds) in [(TASK, "0"), (WORKING_TASK, "0.3"), (SLOW_TASK, "3")] {
            let (script, file) = (effects.script(), effects.file());
            let argv = ["/bin/sh", path(&script)?, path(&file)?, seconds, "0"];
            tasks.push_str(&format!("[tasks.{name}]\ncommand = {argv:?}\n\n"));
        }
        std::fs::write(effects.tasks(), tasks)?;
        Ok(effects)
    }

    /// The tasks file for `cronstream executor --tasks`.
    #[must_use]
    pub fn tasks(&self) -> PathBuf {
        self.dir.join("tasks.toml")
    }

    fn script(&self) -> PathBuf {
        self.dir.join("effect.sh")
    }

    fn file(&self) -> PathBuf {
        self.dir.join("effects")
    }

    /// What the tasks have written so far.
    ///
    /// # Errors
    /// When a line is not what the script writes.
    pub fn read(&self) -> Result<Vec<Effect>> {
        let file = self.file();
        let text = std::fs::read_to_string(&file);
        let text = text.with_context(|| format!("read {}", file.display()))?;
        text.lines().map(|line| parse(line).with_context(|| format!("effect {line:?}"))).collect()
    }
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a folder whose name is not UTF-8")
}

fn parse(line: &str) -> Result<Effect> {
    let words: Vec<&str> = line.split(' ').collect();
    let [run, slot, shard, attempt, token, mark, at] = words[..] else {
        anyhow::bail!("{} words in place of 7", words.len());
    };
    Ok(Effect {
        run: run.parse().context("run")?,
        slot: slot.parse().context("slot")?,
        shard: shard.parse().context("shard")?,
        attempt: attempt.parse().context("attempt")?,
        token: token.parse().context("token")?,
        mark: match mark {
            "start" => Mark::Start,
            "end" => Mark::End,
            other => anyhow::bail!("mark {other:?}"),
        },
        at: Timestamp::from_millis(at.parse().context("time")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_writes_what_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let effects = Effects::create(dir.path()).unwrap();
        let run = "01a3185c-507b-8d05-ac6c-fdd1ec25513c";
        let status = std::process::Command::new("/bin/sh")
            .arg(effects.script())
            .args([effects.file().to_str().unwrap(), "0", "7"])
            .env_clear()
            .env("CRON_RUN", run)
            .env("CRON_SLOT", "2027-01-31T03:00:00.000Z")
            .env("CRON_SHARD", "2")
            .env("CRON_ATTEMPT", "3")
            .env("CRON_FENCING_TOKEN", "44")
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(7));
        let read = effects.read().unwrap();
        assert_eq!(read.iter().map(|it| it.mark).collect::<Vec<_>>(), [Mark::Start, Mark::End]);
        assert_eq!((read[0].run.to_string().as_str(), read[0].shard), (run, 2));
        assert_eq!((read[1].attempt, read[1].token), (3, 44));
        assert!(read[0].at <= read[1].at);
    }
}

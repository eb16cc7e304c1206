//! docker-compose.yml as far as these tests look at it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::yaml;

/// The top of the tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the tree").into()
}

/// A file of the tree.
pub(crate) fn read(name: &str) -> Result<String> {
    std::fs::read_to_string(root().join(name)).with_context(|| format!("read {name}"))
}

/// The file.
#[derive(Debug)]
pub(crate) struct Compose {
    pub(crate) services: BTreeMap<String, Service>,
    /// Names of volumes.
    pub(crate) volumes: BTreeSet<String>,
    /// Names that are filled in from .env, the required ones with their message.
    pub(crate) variables: BTreeSet<String>,
}

/// One service.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) raw: Value,
    /// Entrypoint, where it is another than the image's, and command.
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) command: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// What is mounted where.
    pub(crate) mounts: Vec<(String, String)>,
}

impl Compose {
    /// Reads the file, with variables filled in by `fill`.
    pub(crate) fn read(fill: impl Fn(&str) -> String) -> Result<Self> {
        let text = read("docker-compose.yml")?;
        let (text, variables) = interpolate(&text, fill)?;
        let value = yaml::parse(&text).context("docker-compose.yml")?;
        let services = value["services"].as_object().context("no services")?;
        let services = services
            .iter()
            .map(|(name, raw)| Ok((name.clone(), Service::read(raw).context(name.clone())?)))
            .collect::<Result<_>>()?;
        let volumes = value["volumes"].as_object().context("no volumes")?;
        let volumes = volumes.keys().cloned().collect();
        Ok(Self { services, volumes, variables })
    }

    /// A service by its name.
    pub(crate) fn service(&self, name: &str) -> Result<&Service> {
        self.services.get(name).with_context(|| format!("no service {name}"))
    }

    /// The brokers, by name.
    pub(crate) fn brokers(&self) -> Vec<(&str, &Service)> {
        let broker = |(name, service): (&'_ String, &'_ Service)| {
            let is = service.command.first().is_some_and(|program| program == "nats-server");
            is.then(|| name.clone())
        };
        let names = self.services.iter().filter_map(broker);
        names
            .filter_map(|name| self.services.get_key_value(&name))
            .map(|(n, s)| (&**n, s))
            .collect()
    }

    /// The services that are our program, by name.
    pub(crate) fn ours(&self) -> Vec<(&str, &Service)> {
        let ours = |service: &Service| service.raw["image"] == "cronstream";
        self.services.iter().filter(|(_, s)| ours(s)).map(|(n, s)| (n.as_str(), s)).collect()
    }
}

impl Service {
    fn read(raw: &Value) -> Result<Self> {
        let mut environment = BTreeMap::new();
        for (name, value) in raw["environment"].as_object().into_iter().flatten() {
            environment.insert(name.clone(), text(value)?);
        }
        let mut mounts = Vec::new();
        for mount in list(&raw["volumes"])? {
            let (from, rest) = mount.split_once(':').context("a volume without a target")?;
            let to = rest.strip_suffix(":ro").unwrap_or(rest);
            ensure!(!from.starts_with("./") || rest != to, "{from} is mounted writable");
            mounts.push((from.to_owned(), to.to_owned()));
        }
        let entrypoint = &raw["entrypoint"];
        let entrypoint = if entrypoint.is_null() { None } else { Some(list(entrypoint)?) };
        let command = list(&raw["command"])?;
        Ok(Self { raw: raw.clone(), entrypoint, command, environment, mounts })
    }

    /// What follows an option of the command.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let all = self.entrypoint.iter().flatten().chain(&self.command);
        let words: Vec<&String> = all.collect();
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).map(|word| word.as_str())
    }

    /// Ports that are published, as `host:port:port`.
    pub(crate) fn published(&self) -> Result<Vec<String>> {
        list(&self.raw["ports"])
    }

    /// The login of `NATS_URL`, and its servers as `host:port`.
    pub(crate) fn nats(&self) -> Result<Option<(String, String, Vec<String>)>> {
        let Some(urls) = self.environment.get("NATS_URL") else { return Ok(None) };
        let (mut login, mut servers) = (None, Vec::new());
        for url in urls.split(',') {
            let rest = url.strip_prefix("nats://").context("an address without nats://")?;
            let server = match rest.split_once('@') {
                Some((user, server)) => {
                    login = login.or(Some(user));
                    server
                }
                None => rest,
            };
            servers.push(server.to_owned());
        }
        let login = login.and_then(|login| login.split_once(':')).context("no login")?;
        Ok(Some((login.0.to_owned(), login.1.to_owned(), servers)))
    }
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().with_context(|| format!("{value} is no text"))?.to_owned())
}

/// The items of a list, none where there is no list.
pub(crate) fn list(value: &Value) -> Result<Vec<String>> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// Fills in `${NAME}` and `${NAME:?message}`, and names what was filled in.
fn interpolate(text: &str, fill: impl Fn(&str) -> String) -> Result<(String, BTreeSet<String>)> {
    let (mut out, mut names, mut rest) = (String::new(), BTreeSet::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after.split_once('}').context("a ${ without }")?;
        let name = inside.split_once(':').map_or(inside, |(name, _)| name);
        out.push_str(before);
        out.push_str(&fill(name));
        names.insert(name.to_owned());
        rest = behind;
    }
    out.push_str(rest);
    Ok((out, names))
}

//! Names, ports, users and paths mean the same in every file.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use cronstream_server::RightsTable;

use crate::compose::{Compose, list, read, root};
use crate::yaml;

/// Where the images of others listen, by their documentation.
const FOREIGN_PORTS: &[(&str, &[u16])] =
    &[("jaeger", &[4318, 16686]), ("prometheus", &[9090]), ("grafana", &[3000])];

fn compose() -> Result<Compose> {
    Compose::read(|name| format!("p-{name}"))
}

/// The ports that a service listens on.
fn ports(compose: &Compose) -> Result<BTreeMap<&str, BTreeSet<u16>>> {
    let conf = read("nats-config/cluster.conf")?;
    let brokers: BTreeSet<u16> = conf
        .lines()
        .filter_map(|line| line.trim().strip_prefix("listen: \"0.0.0.0:")?.strip_suffix('"'))
        .map(|port| port.parse().context("a port of cluster.conf"))
        .collect::<Result<_>>()?;
    let mut ports: BTreeMap<&str, BTreeSet<u16>> = BTreeMap::new();
    ports.extend(compose.brokers().into_iter().map(|(name, _)| (name, brokers.clone())));
    for (name, service) in compose.ours() {
        if let Some(metrics) = service.option("--metrics") {
            let port = metrics.strip_prefix("0.0.0.0:").context("--metrics on all addresses")?;
            ports.insert(name, [port.parse()?].into());
        }
    }
    let foreign =
        FOREIGN_PORTS.iter().map(|(name, ports)| (*name, ports.iter().copied().collect()));
    ports.extend(foreign);
    Ok(ports)
}

/// Whether `host:port` is a service that listens there.
fn reaches(ports: &BTreeMap<&str, BTreeSet<u16>>, address: &str) -> Result<()> {
    let (host, port) = address.split_once(':').with_context(|| format!("no port: {address}"))?;
    let port: u16 = port.trim_end_matches('/').parse().with_context(|| address.to_owned())?;
    let listens = ports.get(host).is_some_and(|ports| ports.contains(&port));
    ensure!(listens, "nothing listens on {address}");
    Ok(())
}

#[test]
fn every_mounted_path_is_there() -> Result<()> {
    let compose = compose()?;
    let mut named = BTreeSet::new();
    for (name, service) in &compose.services {
        for (from, _) in &service.mounts {
            match from.strip_prefix("./") {
                Some(path) => ensure!(root().join(path).exists(), "{name} mounts {from}"),
                None => _ = named.insert(from.clone()),
            }
        }
    }
    ensure!(named == compose.volumes, "{named:?} are mounted, {:?} declared", compose.volumes);
    // What is included is looked for beside the file that includes it.
    let mounted = &compose.service("nats-1")?.mounts;
    for line in read("nats-config/cluster.conf")?.lines() {
        if let Some(name) = line.strip_prefix("include ") {
            let path = format!("/etc/nats/{}", name.trim_matches('"'));
            ensure!(mounted.iter().any(|(_, to)| *to == path), "{path} is not mounted");
        }
    }
    Ok(())
}

#[test]
fn every_address_is_a_service_that_listens_there() -> Result<()> {
    let compose = compose()?;
    let ports = ports(&compose)?;
    for (name, service) in &compose.services {
        for server in service.nats()?.map(|(_, _, servers)| servers).unwrap_or_default() {
            reaches(&ports, &server).with_context(|| name.clone())?;
        }
        if let Some(otlp) = service.option("--otlp") {
            reaches(&ports, otlp.trim_start_matches("http://"))?;
        }
        let routes = service.environment.get("CRONSTREAM_ROUTES").map_or("[]", String::as_str);
        for route in serde_json::from_str::<Vec<String>>(routes)? {
            let (_, server) = route.rsplit_once('@').context("a route without a login")?;
            reaches(&ports, server).with_context(|| name.clone())?;
        }
        for published in service.published()? {
            let parts: Vec<&str> = published.split(':').collect();
            ensure!(parts.first() == Some(&"127.0.0.1"), "{name} publishes {published} to all");
            reaches(&ports, &format!("{name}:{}", parts.last().context("a port")?))?;
        }
    }
    let prometheus = yaml::parse(&read("deploy/prometheus.yml")?)?;
    for job in prometheus["scrape_configs"].as_array().context("scrape_configs")? {
        for found in job["dns_sd_configs"].as_array().context("found by DNS")? {
            for name in list(&found["names"])? {
                let port = found["port"].as_str().context("a port")?;
                reaches(&ports, &format!("{name}:{port}")).context("prometheus.yml")?;
            }
        }
    }
    let sources = read("deploy/grafana/provisioning/datasources/cronstream.yml")?;
    for source in yaml::parse(&sources)?["datasources"].as_array().context("datasources")? {
        let url = source["url"].as_str().context("an url")?;
        reaches(&ports, url.trim_start_matches("http://")).context("grafana's sources")?;
    }
    Ok(())
}

#[test]
fn every_user_is_in_the_table_and_has_its_own_password_and_inbox() -> Result<()> {
    let (compose, table) = (compose()?, RightsTable::embedded());
    let accounts = read("nats-config/accounts.conf")?;
    let mut used = BTreeSet::new();
    for (name, service) in compose.ours() {
        let (user, password, _) =
            service.nats()?.with_context(|| format!("{name}: no NATS_URL"))?;
        let known = table.users().iter().find(|known| known.name == user);
        let known = known.with_context(|| format!("{name}: no user {user} in rights.toml"))?;
        ensure!(password == format!("p-{}", known.password_variable()), "{name}: {password}");
        let inbox = format!("_INBOX.{user}");
        ensure!(service.option("--inbox-prefix") == Some(&inbox), "{name}: not {inbox}");
        ensure!(service.option("--queue") == known.queue.as_deref(), "{name}: another queue");
        used.insert(known.role.clone());
    }
    ensure!(used.is_superset(&["ticker", "executor", "relay", "operator"].map(Into::into).into()));
    for user in table.users() {
        let variable = user.password_variable();
        ensure!(accounts.contains(&format!("${variable}\n")), "{variable} is not in accounts.conf");
        for (name, broker) in compose.brokers() {
            let is = broker.environment.get(&variable) == Some(&format!("p-{variable}"));
            ensure!(is, "{name} has no {variable}");
        }
    }
    Ok(())
}

#[test]
fn the_example_environment_names_what_compose_asks_for() -> Result<()> {
    let example = read(".env.example")?;
    let lines = example.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut named = BTreeSet::new();
    for line in lines {
        let (name, value) = line.split_once('=').context("NAME=")?;
        ensure!(value.is_empty(), "{name} has a value that everybody knows");
        named.insert(name.to_owned());
    }
    let compose = compose()?;
    ensure!(named == compose.variables, "{named:?} and {:?}", compose.variables);
    let ignored = read(".gitignore")?;
    ensure!(ignored.lines().any(|line| line == "/.env"), ".env may be committed");
    ensure!(read(".dockerignore")?.lines().any(|line| line == ".env"), ".env is in the image");
    Ok(())
}

#[test]
fn brokers_are_three_of_a_kind_that_lose_nothing() -> Result<()> {
    let compose = compose()?;
    let brokers = compose.brokers();
    ensure!(brokers.len() == 3, "{} brokers", brokers.len());
    for (name, broker) in brokers {
        ensure!(broker.environment.get("NATS_NAME").is_some_and(|it| it == name), "{name}");
        let data = broker.mounts.iter().find(|(_, to)| to == "/data");
        ensure!(data.is_some_and(|(from, _)| from == name), "{name} shares its data");
    }
    let conf = read("nats-config/cluster.conf")?;
    for line in ["sync_interval: always", "store_dir: \"/data\"", "include \"accounts.conf\""] {
        ensure!(conf.lines().any(|it| it.trim() == line), "cluster.conf has no {line}");
    }
    let init = compose.service("init")?;
    ensure!(init.option("--replicas") == Some("3"), "streams without three copies");
    Ok(())
}

#[test]
fn nodes_can_be_scaled_and_are_looked_after() -> Result<()> {
    let compose = compose()?;
    for (name, count) in [("ticker", "2"), ("executor", "2")] {
        let service = compose.service(name)?;
        ensure!(service.raw["deploy"]["replicas"] == count, "{name}: not {count}");
        for fixed in ["container_name", "hostname", "ports"] {
            ensure!(service.raw[fixed].is_null(), "{name} cannot be scaled: {fixed}");
        }
        ensure!(service.option("--node").is_none(), "{name}: one name for all");
    }
    for (name, service) in &compose.services {
        // Jaeger's image has nothing that could ask; the others end or are called by hand.
        let exempt = ["init", "operator", "jaeger"].contains(&name.as_str());
        ensure!(exempt || !service.raw["healthcheck"].is_null(), "{name} has no health check");
    }
    for (name, service) in compose.ours() {
        ensure!(service.raw["read_only"] == "true", "{name} can write its image");
        ensure!(list(&service.raw["cap_drop"])? == ["ALL"], "{name} keeps capabilities");
    }
    Ok(())
}

#[test]
fn the_image_runs_the_program_as_nobody_special() -> Result<()> {
    let text = read("Dockerfile")?;
    let last = |what: &str| {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(what));
        line.map(str::trim).with_context(|| format!("the Dockerfile has no {what}"))
    };
    let user: u32 = last("USER ")?.split(':').next().unwrap_or_default().parse()?;
    ensure!(user > 0, "the image runs as root");
    ensure!(text.matches("\nFROM ").count() == 2, "the image holds what it was built with");
    let program = last("ENTRYPOINT ")?.trim_matches(['[', ']', '"']).to_owned();
    ensure!(text.contains(&format!("COPY --from=build {program} {program}")), "{program}");
    let operator = compose()?.service("operator")?.entrypoint.clone();
    ensure!(operator.is_some_and(|it| it[0] == program), "the operator runs another program");
    let manifest = read("Cargo.toml")?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.context("a rust-version")?.trim_matches('"');
    ensure!(text.contains(&format!("FROM rust:{version}-")), "built by another Rust");
    ensure!(manifest.contains("[profile.dist]"), "no profile dist");
    Ok(())
}

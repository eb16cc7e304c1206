//! The alerts, their scenarios and the dashboard.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::tools::Tools;

/// The dashboard, where Grafana finds it.
const DASHBOARD: &str = "deploy/grafana/provisioning/dashboards/cronstream.json";

pub(crate) fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("")).join(path)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}

#[tokio::test]
async fn the_alerts_and_the_configuration_are_valid() -> Result<()> {
    let Some(tools) = Tools::find().await? else { return Ok(()) };
    let (alerts, config) = (shipped("deploy/alerts.yml"), shipped("deploy/prometheus.yml"));
    tools.promtool(&["check", "rules", text(&alerts)?], "").await?;
    tools.promtool(&["check", "config", text(&config)?], "").await?;
    Ok(())
}

#[tokio::test]
async fn the_alerts_fire_when_they_should_and_not_before() -> Result<()> {
    let Some(tools) = Tools::find().await? else { return Ok(()) };
    let scenarios = shipped("deploy/alerts_test.yml");
    tools.promtool(&["test", "rules", text(&scenarios)?], "").await?;
    Ok(())
}

#[test]
fn every_alert_is_played_in_peace_and_in_trouble() -> Result<()> {
    let named = |file: &str, key: &str| -> Result<Vec<String>> {
        let text = std::fs::read_to_string(shipped(file))?;
        let names = text.lines().filter_map(|line| line.split_once(key)).map(|(_, rest)| {
            rest.chars().take_while(char::is_ascii_alphanumeric).collect::<String>()
        });
        Ok(names.collect())
    };
    let alerts: BTreeSet<String> = named("deploy/alerts.yml", "alert: ")?.into_iter().collect();
    let played = named("deploy/alerts_test.yml", "alertname: ")?;
    ensure!(alerts.len() > 10, "{alerts:?}");
    for alert in &alerts {
        let count = played.iter().filter(|it| *it == alert).count();
        ensure!(count >= 2, "{alert} is played {count} times");
    }
    ensure!(played.iter().all(|it| alerts.contains(it)), "{played:?} has unknown alerts");
    Ok(())
}

#[tokio::test]
async fn every_expression_of_the_dashboard_is_valid() -> Result<()> {
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(shipped(DASHBOARD))?)?;
    let mut expressions = Vec::new();
    collect(&dashboard, &mut expressions);
    ensure!(expressions.len() > 20, "{expressions:?}");
    let rules: Vec<Value> = expressions
        .iter()
        .enumerate()
        .map(|(number, expr)| json!({"record": format!("panel:{number}"), "expr": expr}))
        .collect();
    let Some(tools) = Tools::find().await? else { return Ok(()) };
    // JSON is YAML.
    let rules = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("dashboard.yml");
    std::fs::write(&file, rules.to_string())?;
    tools.promtool(&["check", "rules", text(&file)?], "").await?;
    Ok(())
}

fn collect(value: &Value, expressions: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(expression)) = fields.get("expr") {
                expressions.push(expression.clone());
            }
            fields.values().for_each(|value| collect(value, expressions));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, expressions)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

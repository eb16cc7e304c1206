//! What comes out of an import is what `apply` reads and the scheduler accepts, with the slots of the source.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cronstream_core::calendar::Calendars;
use cronstream_core::definition;
use cronstream_core::plan::Plan;
use cronstream_schemas::definition::{Draft, JobDefinition};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use super::found::{JOBS_MAX, Jobs, Settings};
use super::{Outcome, crontab, k8s, quartz, write};
use crate::args::ImportFrom;
use crate::documents;

type Read = fn(&str, &Settings) -> Outcome;

fn import(read: Read, text: &str) -> Jobs {
    import_with(read, text, &Settings::default())
}

fn import_with(read: Read, text: &str, settings: &Settings) -> Jobs {
    read(text, settings).unwrap().finish(settings)
}

/// The definitions as `apply` reads them from the YAML and from the JSON, which have to say the same.
fn applied(jobs: &Jobs) -> Vec<(JobId, JobDefinition)> {
    let folder = tempfile::tempdir().unwrap();
    let [yaml, json] = ["jobs.yaml", "jobs.json"].map(|name| folder.path().join(name));
    std::fs::write(&yaml, write::yaml(jobs, ImportFrom::Crontab)).unwrap();
    std::fs::write(&json, write::json(jobs)).unwrap();
    let [yaml, json] = [yaml, json].map(definitions);
    assert_eq!(yaml, json);
    yaml
}

fn definitions(file: PathBuf) -> Vec<(JobId, JobDefinition)> {
    let documents = documents::read(&[file]).unwrap();
    let each = documents.into_iter().map(|document| {
        assert!(document.faults.is_empty(), "{:?}", document.faults);
        let draft = Draft::decode(document.body.as_bytes());
        let checked = definition::check(draft, &document.job, &Calendars::default());
        (document.job, checked.unwrap())
    });
    each.collect()
}

fn plan((job, definition): &(JobId, JobDefinition)) -> Plan {
    Plan::compile(definition, job, Timestamp::MIN, &Calendars::default()).unwrap()
}

fn names(jobs: &Jobs) -> Vec<String> {
    jobs.jobs.iter().map(|job| job.job.to_string()).collect()
}

fn remarks(jobs: &Jobs) -> String {
    write::remarks(jobs).collect::<Vec<_>>().join("\n")
}

const CRONTAB: &str = r#"# m h  dom mon dow   command
SHELL=/bin/bash
MAILTO="root@example.org"
PATH = /usr/local/bin:/usr/bin:/bin

# Nightly backup of the database
30 2 * * *  /opt/backup.sh --db main > /dev/null 2>&1
30 2 * * sat  /opt/backup.sh --db main > /dev/null 2>&1

@reboot /opt/start.sh
@daily mail -s "day \% done" ops%Hello,%%bye
0 22-2 * * fri-mon /opt/night.sh
# 0 4 * * * /opt/switched-off.sh
*/0 * * * * /opt/never.sh
this is no entry
CRON_TZ=Europe/Berlin
5 4 * * sun /opt/weekly.sh
"#;

#[test]
fn a_crontab_becomes_jobs_tasks_and_remarks() {
    let jobs = import(crontab::read, CRONTAB);
    let applied = applied(&jobs);
    assert_eq!(names(&jobs).len(), 5, "{:?}", names(&jobs));
    assert!(names(&jobs)[0].starts_with("default/backup-db-main-"), "{:?}", names(&jobs));
    assert_eq!(
        names(&jobs)[2..],
        ["default/mail-s-day-done-ops", "default/night", "default/weekly"]
    );
    assert_eq!(applied[0].1.title.as_ref().unwrap().as_str(), "Nightly backup of the database");
    assert_eq!(applied[1].1.title, None);
    assert_eq!(applied[4].1.time_zone, "Europe/Berlin");
    let remarks = remarks(&jobs);
    for said in ["MAILTO", "@reboot", "22-2 wraps", "$.schedule.cron", "this is no entry"] {
        assert!(remarks.contains(said), "{said}: {remarks}");
    }
    assert_eq!(jobs.left_out(), 3, "{:?}", jobs.left_out);
}

#[test]
fn the_tasks_of_a_crontab_are_a_tasks_file() {
    let jobs = import(crontab::read, CRONTAB);
    let text = write::tasks(&jobs);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.toml");
    std::fs::write(&file, &text).unwrap();
    cronstream_executor::check_tasks_file(&file, &"cron".parse().unwrap()).unwrap();
    assert!(text.contains(r#"[tasks."mail-s-day-done-ops"]"#), "{text}");
    let script = r#"{ mail -s \"day % done\" ops\n} <<'CRON_STDIN'\nHello,\n\nbye\nCRON_STDIN"#;
    assert!(text.contains(script), "{text}");
    assert!(text.contains("/bin/bash"), "{text}");
}

#[test]
fn a_system_crontab_has_a_user_in_each_line() {
    let text = "17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n0 0 * * * root\n";
    let settings = Settings { with_user: true, ..Settings::default() };
    let jobs = import_with(crontab::read, text, &settings);
    assert_eq!(names(&jobs), ["default/run-parts-report-cron-hourly"]);
    assert!(remarks(&jobs).contains("it ran as root"), "{}", remarks(&jobs));
    assert_eq!(jobs.left_out(), 1);
}

#[test]
fn the_slots_of_a_crontab_are_those_of_debians_cron() {
    let vectors =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/core/tests/data/debian-cron.tsv");
    let vectors = std::fs::read_to_string(vectors).unwrap();
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];
    let rows: Vec<Vec<&str>> = vectors
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect())
        .filter(|row: &Vec<&str>| zones.contains(&row[1]) && row[3].starts_with("20"))
        // `5#3` is a `5` and a command there, and its `\t` in the list are no blanks.
        .filter(|row| !row[0].contains(['#', '\\']) && !row[3].contains("NEVER"))
        .collect();
    let mut text = String::new();
    for row in &rows {
        writeln!(text, "CRON_TZ={}\n{} /bin/true", row[1], row[0]).unwrap();
    }
    let jobs = import(crontab::read, &text);
    assert!(rows.len() > 400 && jobs.left_out() == 0, "{} {:?}", rows.len(), jobs.left_out);
    let applied = applied(&jobs);
    for (row, job) in rows.iter().zip(&applied) {
        let (plan, mut slot) = (plan(job), row[2].parse::<Timestamp>().unwrap());
        for wanted in row[3].split(' ') {
            slot = plan.next(slot).unwrap();
            let wanted = format!("{}:{}", &wanted[..wanted.len() - 2], &wanted[wanted.len() - 2..]);
            assert_eq!(slot, wanted.parse().unwrap(), "{row:?}");
        }
    }
}

#[test]
fn an_entry_keeps_its_name_wherever_it_stands() {
    let lines = ["0 1 * * * /a/run.sh", "0 2 * * * /b/run.sh", "0 3 * * * /c/other.sh"];
    let forth = names(&import(crontab::read, &lines.join("\n")));
    let back =
        names(&import(crontab::read, &lines.iter().rev().copied().collect::<Vec<_>>().join("\n")));
    assert_eq!(forth, back.into_iter().rev().collect::<Vec<_>>());
}

const CRONJOBS: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: nightly.report, namespace: billing, labels: {app: report}}
  spec:
    schedule: "30 2 */2 * 1"
    timeZone: Europe/Berlin
    concurrencyPolicy: Forbid
    startingDeadlineSeconds: 20
    suspend: true
    successfulJobsHistoryLimit: 3
    jobTemplate:
      spec:
        backoffLimit: 2
        activeDeadlineSeconds: 600
        parallelism: 4
        template:
          spec:
            restartPolicy: OnFailure
            serviceAccountName: reporter
            volumes: [{name: x, configMap: {name: y, defaultMode: 0644}}]
            containers:
            - name: main
              image: registry.example/report:7
              command: ["/bin/report"]
              args: ["--month", "2027-01"]
              env: [{name: A, value: "1"}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]
              resources: {}
- apiVersion: v1
  kind: Service
  metadata: {name: web}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: plain}
spec:
  schedule: "@hourly"
  concurrencyPolicy: Replace
  jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: i, args: ["$(DATE)"]}]}}}}
"#;

#[test]
fn cron_jobs_of_kubernetes_become_jobs_and_remarks() {
    let jobs = import(k8s::read, CRONJOBS);
    let applied = applied(&jobs);
    assert_eq!(names(&jobs), ["billing/nightly-report", "default/plain"]);
    let (report, plain) = (&applied[0].1, &applied[1].1);
    let said = serde_json::to_value(report).unwrap();
    for (field, value) in [
        ("schedule", r#"{"cron":"30 2 1-31/2 * 1"}"#),
        ("overlap", r#""skip""#),
        ("timeout", r#""10m""#),
        ("max_attempts", "3"),
        ("gap", r#""skip""#),
        ("fold", r#""both""#),
        (
            "params",
            r#"{"args":["--month","2027-01"],"command":["/bin/report"],"env":{"A":"1"},"image":"registry.example/report:7"}"#,
        ),
    ] {
        assert_eq!(said[field].to_string(), value, "{field}");
    }
    assert_eq!(said["misfire"]["window"], "20s");
    assert_eq!(plain.max_attempts, 7);
    let remarks = remarks(&jobs);
    for said in [
        "called nightly.report",
        "pause it right after apply",
        "Replace",
        "parallelism 4",
        "serviceAccountName, volumes",
        "env B comes from",
        "successfulJobsHistoryLimit 3",
        "Service web",
        "resources",
        "as in \"$(DATE)\"",
    ] {
        assert!(remarks.contains(said), "{said}: {remarks}");
    }
    assert!(write::tasks(&jobs).contains(r#"command = ["/bin/report", "--month", "2027-01"]"#));
}

#[test]
fn a_clock_change_means_to_a_cron_job_what_it_means_in_kubernetes() {
    let applied = applied(&import(k8s::read, &CRONJOBS.replace("30 2 */2 * 1", "30 2 * * *")));
    let plan = plan(&applied[0]);
    let next = |after: &str| plan.next(after.parse().unwrap()).unwrap().to_string();
    // 02:30 of 28 March 2027 does not exist in Berlin, that of 31 October comes twice.
    assert_eq!(next("2027-03-27T12:00:00Z"), "2027-03-29T00:30:00.000Z");
    assert_eq!(next("2027-10-30T12:00:00Z"), "2027-10-31T00:30:00.000Z");
    assert_eq!(next("2027-10-31T00:30:00Z"), "2027-10-31T01:30:00.000Z");
}

const QUARTZ: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<job-scheduling-data xmlns="http://www.quartz-scheduler.org/xml/JobSchedulingData" version="2.0">
  <schedule>
    <job>
      <name>report</name><group>billing</group>
      <job-class>org.example.ReportJob</job-class>
      <job-data-map><entry><key>a</key><value>1</value></entry><entry><key>b</key><value>2</value></entry></job-data-map>
    </job>
    <trigger><cron>
      <name>last-friday</name><group>billing</group><job-name>report</job-name><job-group>billing</job-group>
      <calendar-name>holidays</calendar-name>
      <job-data-map><entry><key>b</key><value>3</value></entry></job-data-map>
      <start-time>2027-01-01T00:00:00</start-time>
      <misfire-instruction>MISFIRE_INSTRUCTION_DO_NOTHING</misfire-instruction>
      <cron-expression>0 15 10 ? * 6L</cron-expression>
      <time-zone>Europe/Berlin</time-zone>
    </cron></trigger>
    <trigger><simple>
      <name>five-times</name><job-name>report</job-name><job-group>billing</job-group>
      <start-time>2027-01-01T00:00:00Z</start-time>
      <repeat-count>4</repeat-count><repeat-interval>60000</repeat-interval>
    </simple></trigger>
    <trigger><calendar-interval>
      <name>monthly</name><job-name>report</job-name><repeat-interval>1</repeat-interval>
    </calendar-interval></trigger>
    <trigger><cron>
      <name>strange</name><job-name>gone</job-name><cron-expression>0 0 0 31 2 ?</cron-expression>
    </cron></trigger>
  </schedule>
</job-scheduling-data>"#;

#[test]
fn triggers_of_quartz_become_jobs_in_their_own_dialect() {
    let jobs = import(quartz::read, QUARTZ);
    let applied = applied(&jobs);
    assert_eq!(names(&jobs), ["billing/last-friday", "billing/five-times"]);
    let cron = &applied[0];
    let next = plan(cron).next("2026-12-01T00:00:00Z".parse().unwrap()).unwrap();
    // The Friday of Quartz is the sixth day, and 10:15 in Berlin is 09:15 UTC in winter.
    assert_eq!(next.to_string(), "2027-01-29T09:15:00.000Z");
    assert_eq!(cron.1.start.unwrap().to_string(), "2026-12-31T23:00:00.000Z");
    assert_eq!(cron.1.params.as_str(), r#"{"a":"1","b":"3"}"#);
    let remarks = remarks(&jobs);
    for said in ["org.example.ReportJob", "holidays", "calendar-interval", "strange", "Disallow"] {
        assert!(remarks.contains(said), "{said}: {remarks}");
    }
    assert_eq!(jobs.left_out(), 2, "{:?}", jobs.left_out);
}

/// What has no command is still to be written: as a comment, for an executor that knows a task runs it.
#[test]
fn tasks_that_the_source_has_no_command_for_are_stubs_of_the_tasks_file() {
    let container = "containers: [{name: c, image: \"registry.example/report:7\"}]";
    let image = format!(
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: report}}\nspec:\n  schedule: '0 3 * * *'\n  \
         jobTemplate: {{spec: {{template: {{spec: {{{container}}}}}}}}}\n"
    );
    for (read, source, stub, was) in [
        (quartz::read as Read, QUARTZ, "report", "org.example.ReportJob"),
        (
            quartz::read,
            "# close the month\n0 15 10 ? * 6L\n",
            "close-the-month",
            "say what it runs",
        ),
        (k8s::read, &image, "report", "what image registry.example/report:7 runs"),
    ] {
        let jobs = import(read, source);
        let text = write::tasks(&jobs);
        let stubs = text.matches(&format!("\n# [tasks.\"{stub}\"]\n# command = [")).count();
        assert_eq!(stubs, 1, "{text}");
        assert!(text.contains(was), "{text}");
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
        let named = jobs.jobs.iter().any(|job| job.fields["task"] == *stub);
        assert!(named, "{:?}", names(&jobs));
    }
}

#[test]
fn a_counted_trigger_of_quartz_fires_as_often_as_there() {
    let applied = applied(&import(quartz::read, QUARTZ));
    let (plan, mut slots) = (plan(&applied[1]), Vec::new());
    let mut slot = "2026-12-01T00:00:00Z".parse().unwrap();
    while let Some(next) = plan.next(slot) {
        slots.push(next.to_string());
        slot = next;
    }
    let minutes = (0..5).map(|minute| format!("2027-01-01T00:0{minute}:00.000Z"));
    assert_eq!(slots, minutes.collect::<Vec<_>>());
}

#[test]
fn a_list_of_quartz_expressions_keeps_the_numbers_of_its_week_days() {
    let jobs =
        import(quartz::read, "# close the month\n0 15 10 ? * 6L\n\n0 0/5 14 * * ? 2027\n* *\n");
    assert_eq!(names(&jobs)[0], "default/close-the-month");
    assert_eq!((jobs.accepted(), jobs.left_out()), (2, 1), "{:?}", jobs.left_out);
    let next = plan(&applied(&jobs)[0]).next("2027-01-01T00:00:00Z".parse().unwrap()).unwrap();
    assert_eq!(next.to_string(), "2027-01-29T10:15:00.000Z");
}

#[test]
fn hostile_files_are_refused_or_become_remarks_and_never_more() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &(0..30).map(|n| format!("b{n}: &b{n} [*a,*a,*a,*a,*a,*a,*a,*a]\n")).collect::<String>();
    let nested = format!("a: {}", "[".repeat(100_000));
    let entities = r#"<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><job-scheduling-data>&b;</job-scheduling-data>"#;
    let deep = format!("{}{}", "<a>".repeat(200_000), "</a>".repeat(200_000));
    let texts = [
        "",
        "\u{0}",
        "\u{feff}",
        "<",
        "<a/>",
        "{",
        "[[",
        "null",
        "- 1",
        "kind: CronJob",
        "a: *b",
        "* * * * * \u{1b}[31m\u{9b}",
        "= = = = = =",
        "% % % % % %",
        "@",
        "\\%",
        &bomb,
        &nested,
        entities,
        &deep,
    ];
    for text in texts {
        for read in [crontab::read as Read, k8s::read, quartz::read] {
            for with_user in [false, true] {
                let settings = Settings { with_user, ..Settings::default() };
                let Ok(imported) = read(text, &settings) else { continue };
                let jobs = imported.finish(&settings);
                applied(&jobs);
                let yaml = write::yaml(&jobs, ImportFrom::Quartz);
                assert!(!yaml.contains('\u{1b}') && !yaml.contains('\u{9b}'), "{yaml}");
            }
        }
    }
}

#[test]
fn a_file_of_more_entries_than_an_import_takes_is_refused_with_the_line() {
    let text = "0 0 * * * /a\n".repeat(JOBS_MAX + 1);
    let error = crontab::read(&text, &Settings::default()).unwrap_err();
    assert!(error.starts_with(&format!("{}: more than", JOBS_MAX + 1)), "{error}");
}

#[test]
fn a_comment_of_the_source_cannot_leave_its_comment() {
    let text = "# title\\n: x\n0 0 * * * /bin/echo 'a\u{2028}job: x/y'\u{85}job: z/z\n";
    let jobs = import(crontab::read, text);
    assert_eq!(applied(&jobs).len(), 1);
}

/// What is said of one line, whose job is written as it is or left out.
fn said_of(line: &str) -> (usize, String) {
    let jobs = import(crontab::read, line);
    applied(&jobs);
    (jobs.accepted(), remarks(&jobs))
}

#[test]
fn a_line_that_debians_cron_reads_otherwise_says_how() {
    for (line, accepted, says) in [
        ("0 3 * * 5#3 cmd", 0, "day of the week 5#3: Debian's cron drops #3"),
        ("0 3 ? * MON cmd", 1, "Debian's cron refuses ?"),
        ("0 3 * * 5L cmd", 1, "Debian's cron refuses 5L"),
        ("0 3 L * * cmd", 1, "Debian's cron refuses L"),
        ("H H * * * cmd", 1, "Debian's cron refuses H"),
        ("-*/5 * * * * cmd", 1, "keeps it out of cron's log"),
        ("@DAILY cmd", 0, "cron knows @daily in small letters only"),
        ("@fortnightly cmd", 0, "@fortnightly is no time"),
        ("0 3 * * *", 0, "no command"),
        ("0 3 {} * * cmd", 0, "{} is no day of the month"),
        ("0 24 * * * cmd", 0, "left out, line 1: 0 24 * * * cmd ("),
    ] {
        let (jobs, said) = said_of(line);
        assert_eq!(jobs, accepted, "{line}: {said}");
        assert!(said.contains(says), "{line}: {said}");
    }
    let (_, said) = said_of("0 3 * * MON cmd");
    assert!(!said.contains("refuses"), "{said}");
}

#[test]
fn an_empty_variable_means_what_it_means_to_cron() {
    let text = "MAILTO=\"\"\nCRON_TZ=\n0 3 * * * cmd\n";
    let jobs = import(crontab::read, text);
    assert_eq!(applied(&jobs)[0].1.time_zone, "UTC");
    let said = remarks(&jobs);
    assert!(said.contains("CRON_TZ= is empty") && !said.contains("MAILTO"), "{said}");
}

#[test]
fn a_line_that_is_not_utf_8_is_left_out_alone() {
    let bytes = b"# r\xe9sum\xe9\n0 1 * * * /a.sh\n0 2 * * * echo \xfc\n0 3 * * * /b.sh\n";
    let jobs = import(crontab::read, &String::from_utf8_lossy(bytes));
    assert_eq!(names(&jobs), ["default/a", "default/b"]);
    assert_eq!(applied(&jobs)[0].1.title, None);
    assert_eq!(jobs.left_out(), 1);
    assert!(remarks(&jobs).contains("left out, line 3"), "{}", remarks(&jobs));
}

#[test]
fn a_crontab_whose_commands_begin_with_users_asks_for_the_column() {
    let system = "30 3 * * 0 root test -e /run/systemd/system || exit 0\n5 4 * * * www-data /x\n";
    let asks = |text: &str| said_of(text).1.contains("import with --user");
    assert!(asks(system));
    assert!(!asks("30 3 * * 0 root /x\n5 4 * * * /usr/bin/y z\n"));
    assert!(!asks("30 3 * * 0 echo hello\n"));
    for (file, is) in
        [("/etc/crontab", true), ("/etc/cron.d/e2scrub_all", true), ("crontab", false)]
    {
        assert_eq!(crontab::is_of_system(Path::new(file)), is, "{file}");
    }
}

#[test]
fn the_items_of_a_typed_list_of_kubernetes_are_jobs() {
    let text = r#"{"kind":"CronJobList","apiVersion":"batch/v1","items":[
        {"metadata":{"name":"twice"},"spec":{"schedule":"0 3 * * *","jobTemplate":{}}},
        {"metadata":{"name":"twice"},"spec":{"schedule":"0 4 * * *","jobTemplate":{}}},
        {"metadata":{"name":"own.zone"},"spec":{"schedule":"TZ=Europe/Berlin 30 2 * * *","jobTemplate":{}}},
        {"kind":"Job","metadata":{"name":"other"}}]}"#;
    let jobs = import(k8s::read, text);
    assert_eq!((jobs.accepted(), jobs.left_out()), (3, 1), "{:?}", jobs.left_out);
    let said = remarks(&jobs);
    assert_eq!(said.matches("called twice in the source").count(), 2, "{said}");
    let (_, own) = &applied(&jobs)[2];
    let own = serde_json::to_value(own).unwrap();
    assert_eq!(
        (&own["time_zone"], &own["gap"], &own["fold"]),
        (&"Europe/Berlin".into(), &"skip".into(), &"both".into())
    );
    assert!(write::yaml(&jobs, ImportFrom::K8s).contains(r#""window":"30d""#));
}

//! What a tasks file may say, and what is told when it says something else.

use super::*;

fn read_text(text: &str) -> Result<BTreeMap<Name, Task>, Error> {
    parse(text, Path::new("/etc/cronstream/tasks.toml"), &Prefix::default())
}

fn faults(text: &str) -> Vec<String> {
    match read_text(text) {
        Err(Error::Tasks { faults, .. }) => faults.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_three_kinds_of_task_are_read() {
    let tasks = read_text(
        r#"
        [tasks.report]
        command = ["./report.sh", "--all"]
        cwd = "work"
        env = { LANG = "C" }
        env_pass = ["PATH", "CRONSTREAM_NOT_SET"]

        [tasks.ping]
        http = { method = "PUT", url = "https://example.org/ping", headers = { Authorization = "Bearer x" } }

        [tasks.calc]
        nats = { subject = "svc.calc" }
        "#,
    )
    .unwrap();
    let get = |name: &str| tasks[&Name::parse(name).unwrap()].clone();
    let Task::Command(report) = get("report") else { panic!("{tasks:?}") };
    assert_eq!(report.program, Path::new("/etc/cronstream/work/./report.sh"));
    assert_eq!(report.args, ["--all"]);
    assert_eq!(report.env.keys().collect::<Vec<_>>(), ["LANG", "PATH"]);
    let Task::Http(ping) = get("ping") else { panic!("{tasks:?}") };
    assert_eq!(ping.method, Method::PUT);
    assert!(!format!("{tasks:?}").contains("Bearer"), "secrets are not printed");
    let Task::Nats(calc) = get("calc") else { panic!("{tasks:?}") };
    assert_eq!(calc, "svc.calc");
}

#[test]
fn a_bare_program_is_looked_up_and_the_method_is_post() {
    let text = "tasks.a.command = [\"true\"]\ntasks.b.http.url = \"http://localhost/\"";
    let tasks = read_text(text).unwrap();
    let Task::Command(a) = &tasks[&Name::parse("a").unwrap()] else { panic!("{tasks:?}") };
    assert_eq!(
        (a.program.as_path(), a.cwd.as_path()),
        (Path::new("true"), Path::new("/etc/cronstream/"))
    );
    let Task::Http(b) = &tasks[&Name::parse("b").unwrap()] else { panic!("{tasks:?}") };
    assert_eq!(b.method, Method::POST);
}

#[test]
fn every_fault_is_told_at_once_with_key_value_and_what_is_right() {
    let told = faults(
        r#"
        version = 1
        [tasks.a]
        command = "true"
        [tasks.b]
        comand = ["true"]
        [tasks.c]
        command = []
        env = { CRON_RUN = "x", N = 1 }
        shell = true
        [tasks.d]
        http = { method = "get", url = "ftp://x/", headers = { "bad name" = "x" } }
        [tasks.e]
        nats = { subject = "cron.define.a.b" }
        [tasks.f]
        nats = {}
        [tasks."g h"]
        command = ["true"]
        nats = { subject = "a" }
        "#,
    );
    let expected = [
        "version = 1: no such key; known here are `tasks`",
        "tasks.a.command = \"true\": a list of texts, the program first",
        "tasks.b = { comand }: a task has exactly one of `command`, `http`, `nats`; did you mean `command`?",
        "tasks.c.command = []: a list of texts, the program first",
        "tasks.c.env.CRON_RUN = …: Cronstream sets this one itself",
        "tasks.c.env.N = …: a text, under a name without `=`",
        "tasks.c.shell = true: no such key; known here are `command`, `cwd`, `env_pass`, `env`",
        "tasks.d.http.method = \"get\": a method such as \"POST\"",
        "tasks.d.http.url = \"ftp://x/\": an http or https URL",
        "tasks.d.http.headers.bad name = …: a header name with a text of visible characters",
    ];
    assert_eq!(told[..expected.len()], expected);
    let rest = &told[expected.len()..];
    assert!(
        rest[0].starts_with("tasks.e.nats.subject = \"cron.define.a.b\": a subject of your own")
    );
    assert!(rest[1].starts_with("tasks.f.nats.subject is missing: a subject of your own"));
    assert!(rest[2].starts_with("tasks.g h = { command, nats }: name \"g h\" has ' ' at byte 1"));
    assert_eq!(
        rest[3],
        "tasks.g h = { command, nats }: a task has exactly one of `command`, `http`, `nats`"
    );
    assert_eq!(rest.len(), 4, "{rest:?}");
}

#[test]
fn a_file_that_is_no_toml_is_told_with_its_place() {
    let error = read_text("[tasks.a]\ncommand = [").unwrap_err().to_string();
    assert!(error.starts_with("tasks file /etc/cronstream/tasks.toml:2: "), "{error}");
}

#[test]
fn no_fault_tells_a_secret() {
    for text in [
        "[tasks.a]\nhttp = { url = \"http://u:SEKRET@h\", headers = { Authorization = \"SEKRET } }",
        "[tasks.a.http]\nurl = \"http://u:SEKRET@[bad\"",
        "[tasks.a.http]\nurl = \"http://h\"\nheaders = { \"bad name\" = \"SEKRET\" }",
        "[tasks.a]\ncommand = [\"true\"]\nenv = { \"A=B\" = \"SEKRET\", CRON_RUN = \"SEKRET\" }",
    ] {
        let error = read_text(text).unwrap_err().to_string();
        assert!(error.contains("/etc/cronstream/tasks.toml:"), "{error}");
        assert!(!error.contains("SEKRET"), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("/nowhere/tasks.toml"), &Prefix::default()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read tasks file /nowhere/tasks.toml");
}

#[test]
fn a_mistyped_key_is_told_what_was_meant_and_each_fault_has_a_line() {
    let text = "tasks.a = { command = [\"true\"], cdw = \"/\" }\ntask.b.command = [\"true\"]";
    let error = read_text(text).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(error.contains("tasks.a.cdw = \"/\": no such key; did you mean `cwd`?"), "{error}");
    assert!(error.contains("task = { b }: no such key; did you mean `tasks`?"), "{error}");
}

#[test]
fn a_file_without_a_task_says_so() {
    let error = read_text("# nothing yet\n[tasks]\n").unwrap_err().to_string();
    assert_eq!(error, "tasks file /etc/cronstream/tasks.toml defines no task");
}

#[test]
fn a_task_cannot_ask_the_server_the_streams_or_an_inbox() {
    for (subject, allowed) in [
        ("svc.calc", true),
        ("cronjobs.x", true),
        ("cron.fire.q.a.b", false),
        ("$JS.API.STREAM.DELETE.CRON_LOG", false),
        ("_INBOX.x", false),
        ("svc.*", false),
        ("svc.>", false),
        ("svc..x", false),
        ("svc calc", false),
        ("", false),
    ] {
        assert_eq!(is_request_subject(subject, "cron"), allowed, "{subject}");
    }
}

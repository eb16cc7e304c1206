//! From arguments, a context and the environment to a connection.
//!
//! Invariant: an argument beats the context, the context beats the environment. No function here prints an
//! address with its credentials.

use std::path::PathBuf;

use cronstream_bus::{Bus, ConnectOptions};

use crate::args::Connection;
use crate::context::{Context, config_folder};
use crate::error::Error;

const SERVER_DEFAULT: &str = "nats://127.0.0.1:4222";

/// Connects as the arguments say.
///
/// # Errors
/// When the arguments cannot be used or no server answers.
pub(crate) async fn connect(connection: &Connection, role: &str) -> Result<Bus, Error> {
    Ok(Bus::connect(options(connection, role)?).await?)
}

/// The options of a connection, named after `role`.
///
/// # Errors
/// When the context cannot be used.
pub(crate) fn options(connection: &Connection, role: &str) -> Result<ConnectOptions, Error> {
    let variable = |name: &str| std::env::var(name).ok();
    let context = match &connection.context {
        Some(name) => Context::read(&config_folder(variable), name)?,
        None => Context::default(),
    };
    let environment = variable("NATS_URL").filter(|_| connection.context.is_none());
    resolve(connection, context, environment, role)
}

fn resolve(
    connection: &Connection,
    context: Context,
    environment: Option<String>,
    role: &str,
) -> Result<ConnectOptions, Error> {
    let set = |text: String| Some(text).filter(|text| !text.is_empty());
    let file = |argument: &Option<PathBuf>, text: String| {
        argument.clone().or_else(|| set(text).map(PathBuf::from))
    };
    let (urls, own) = match (&connection.nats, set(context.url)) {
        (Some(urls), _) => (urls.clone(), None),
        (None, Some(urls)) => (urls, login(&context.user, &context.password, &context.token)),
        (None, None) => (environment.and_then(set).unwrap_or_else(|| SERVER_DEFAULT.into()), None),
    };
    let servers: Vec<String> = urls
        .split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .map(|url| with_login(url, own.as_deref()))
        .collect();
    if servers.is_empty() {
        return Err(Error::Usage("no server is named by --nats, the context or NATS_URL".into()));
    }
    // An argument for one kind of identity replaces the context's, of whatever kind.
    let (creds, nkey) = if connection.creds.is_some() || connection.nkey.is_some() {
        (connection.creds.clone(), connection.nkey.clone())
    } else {
        (file(&None, context.creds), file(&None, context.nkey))
    };
    let inbox_prefix = connection.inbox_prefix.clone().or_else(|| set(context.inbox_prefix));
    if let Some(prefix) = inbox_prefix.as_deref().filter(|prefix| !is_inbox_prefix(prefix)) {
        let problem = "verdicts are sent below _INBOX only, such as to _INBOX.alice";
        return Err(Error::Usage(format!("inbox prefix {prefix:?}: {problem}")));
    }
    Ok(ConnectOptions {
        servers,
        creds,
        nkey_seed_file: nkey,
        tls_ca: file(&connection.tls_ca, context.ca),
        name: format!("cronstream {role}"),
        inbox_prefix,
        prefix: connection.prefix.clone(),
        retry_initial: false,
    })
}

fn is_inbox_prefix(prefix: &str) -> bool {
    let mut tokens = prefix.split('.');
    tokens.next() == Some("_INBOX")
        && tokens.all(|token| {
            let legal = |c: char| c.is_ascii_graphic() && c != '*' && c != '>';
            !token.is_empty() && token.chars().all(legal)
        })
}

/// The part of an address before `@`.
fn login(user: &str, password: &str, token: &str) -> Option<String> {
    match (user, token) {
        ("", "") => None,
        ("", token) => Some(percent(token)),
        (user, _) => Some(format!("{}:{}", percent(user), percent(password))),
    }
}

/// The address with that login, unless it has one of its own.
fn with_login(url: &str, login: Option<&str>) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
    match login {
        Some(login) if !rest.contains('@') => format!("{scheme}://{login}@{rest}"),
        _ => url.to_owned(),
    }
}

fn percent(text: &str) -> String {
    let keep = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes().fold(String::new(), |mut out, byte| {
        if keep(&byte) {
            out.push(byte.into())
        } else {
            out.push_str(&format!("%{byte:02X}"))
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(json: &str) -> Context {
        serde_json::from_str(json).unwrap()
    }

    fn servers(
        connection: &Connection,
        context: Context,
        environment: Option<&str>,
    ) -> Vec<String> {
        resolve(connection, context, environment.map(Into::into), "test").unwrap().servers
    }

    #[test]
    fn an_argument_beats_the_context_and_the_context_the_environment() {
        let mut connection = Connection::default();
        let context = || context(r#"{"url":"c:1, nats://d:2"}"#);
        assert_eq!(servers(&connection, Context::default(), None), [SERVER_DEFAULT]);
        assert_eq!(servers(&connection, Context::default(), Some("e:1")), ["e:1"]);
        assert_eq!(servers(&connection, context(), Some("e:1")), ["c:1", "nats://d:2"]);
        connection.nats = Some("a:1,b:2".into());
        assert_eq!(servers(&connection, context(), Some("e:1")), ["a:1", "b:2"]);
    }

    #[test]
    fn answers_come_below_the_root_of_inboxes() {
        for (prefix, fits) in [
            ("_INBOX", true),
            ("_INBOX.alice", true),
            ("_INBOX_alice", false),
            ("MINE", false),
            ("_INBOX.*", false),
            ("_INBOX.", false),
        ] {
            assert_eq!(is_inbox_prefix(prefix), fits, "{prefix}");
        }
    }

    #[test]
    fn a_contexts_login_goes_only_to_its_own_servers() {
        let context = || context(r#"{"url":"c:1,nats://own@d:2","user":"u","password":"p@ss"}"#);
        let mut connection = Connection::default();
        assert_eq!(
            servers(&connection, context(), None),
            ["nats://u:p%40ss@c:1", "nats://own@d:2"]
        );
        connection.nats = Some("other:1".into());
        assert_eq!(servers(&connection, context(), None), ["other:1"]);
    }

    #[test]
    fn a_context_that_cannot_be_honoured_is_refused_without_its_values() {
        let folder = tempfile::tempdir().unwrap();
        let contexts = folder.path().join("nats/context");
        std::fs::create_dir_all(&contexts).unwrap();
        std::fs::write(contexts.join("a.json"), r#"{"url":"x:1","user_seed":"SUSECRET"}"#).unwrap();
        std::fs::write(contexts.join("b.json"), r#"{"url":"x:1","password":7}"#).unwrap();
        for (name, says) in [("a", "user_seed"), ("b", "b.json:1"), ("../a", "not the name")] {
            let error = Context::read(folder.path(), name).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("SECRET"), "{error}");
        }
    }
}

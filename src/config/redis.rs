//! `redis:`: where a server is and how to get in.

use super::address::{self, REDIS_FORM, Security};
use super::fields::{self, Fields};
use super::node::{Node, Value};
use super::problem::{Problems, quoted};
use super::{ClientCertificate, RedisConfig, Secret, Tls};

/// Reads one cache's server.
pub(super) fn server(node: &Node, problems: &Problems) -> Option<RedisConfig> {
    let mut fields = Fields::of(node, problems);
    let addr = fields.require("addr", REDIS_FORM, |node, problems| {
        let text = fields::text(node, problems, REDIS_FORM)?;
        address::redis(&text, &node.path, problems)
    });
    fields.read("mode", mode);
    let username = fields.get("username");
    let (file, env) = (fields.get("password_file"), fields.get("password_env"));
    let tls_node = fields.get("tls");
    let tls = tls_node.map(|node| tls(node, problems));
    fields.end();
    let given = password(file, env, problems);
    let username = username.and_then(|n| Some((fields::text(n, problems, "a user name")?, n)));

    let url = addr?;
    if let (Some(_), Some((_, node))) = (&url.username, &username) {
        problems.add(&node.path, "is in addr already; keep one of them");
    }
    if let (Some(_), Some(node)) = (&url.password, file.or(env)) {
        problems.add(&node.path, "addr holds a password already; keep one of them");
    }
    let tls = match (url.security, tls, tls_node) {
        (Security::Tls, tls, _) => Some(tls.unwrap_or_default()),
        (Security::Plain, Some(_), Some(node)) => {
            problems.add(&node.path, "addr asks for no TLS; write rediss:// or valkeys:// there");
            None
        }
        (Security::Plain, _, _) => None,
    };
    Some(RedisConfig {
        address: url.address,
        username: url.username.or(username.map(|(name, _)| name)),
        password: url.password.or(given),
        tls,
    })
}

/// Reads a further server of a cache: all about it, or its address alone; then user, password and
/// TLS are those of the cache's own server unless the address says otherwise.
pub(super) fn further(
    node: &Node,
    own: Option<&RedisConfig>,
    problems: &Problems,
) -> Option<RedisConfig> {
    if let Value::Map(_) = node.value {
        return server(node, problems);
    }
    let text = fields::text(node, problems, REDIS_FORM)?;
    let url = address::redis(&text, &node.path, problems)?;
    let whole = url.username.is_some() || url.password.is_some();
    let own_login = own.filter(|_| !whole);
    let tls = (url.security == Security::Tls)
        .then(|| own.and_then(|own| own.tls.clone()).unwrap_or_default());
    Some(RedisConfig {
        address: url.address,
        username: url.username.or_else(|| own_login?.username.clone()),
        password: url.password.or_else(|| own_login?.password.clone()),
        tls,
    })
}

/// Only one mode exists so far; the others are refused rather than watched as something else.
fn mode(node: &Node, problems: &Problems) -> Option<()> {
    let text = fields::text(node, problems, "standalone")?;
    let message = match text.as_str() {
        "standalone" => return Some(()),
        "sentinel" | "cluster" => {
            format!("{text} is not supported yet; write standalone and the address of one server")
        }
        other => format!("{} is not a mode; write standalone", quoted(other)),
    };
    problems.add(&node.path, message);
    None
}

/// The place of a password, from `password_file` or `password_env`.
pub(super) fn password(
    file: Option<&Node>,
    env: Option<&Node>,
    problems: &Problems,
) -> Option<Secret> {
    if let (Some(_), Some(env)) = (file, env) {
        problems.add(&env.path, "password_file is given already; keep one of them");
    }
    let from_file = file.and_then(|node| fields::secret_file(node, problems)).map(Secret::File);
    let from_env = env.and_then(|node| {
        let name = fields::text(node, problems, "the name of an environment variable")?;
        if std::env::var_os(&name).is_none() {
            // Not repeated: some write the password itself here.
            problems.add(&node.path, "is not the name of an environment variable that is set");
            return None;
        }
        Some(Secret::Env(name))
    });
    from_file.or(from_env)
}

fn tls(node: &Node, problems: &Problems) -> Tls {
    let mut fields = Fields::of(node, problems);
    let ca_file = fields.read("ca_file", fields::file);
    let (cert, key) = (fields.get("cert_file"), fields.get("key_file"));
    let server_name = fields.read("server_name", |n, p| fields::text(n, p, "a host name"));
    fields.end();
    let cert_file = cert.and_then(|n| fields::file(n, problems));
    let key_file = key.and_then(|n| fields::file(n, problems));
    match (cert, key) {
        (Some(node), None) => problems.add(&node.path, "needs key_file beside it"),
        (None, Some(node)) => problems.add(&node.path, "needs cert_file beside it"),
        _ => {}
    }
    let client = cert_file
        .zip(key_file)
        .map(|(cert_file, key_file)| ClientCertificate { cert_file, key_file });
    Tls { server_name, ca_file, client }
}

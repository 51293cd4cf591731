//! Addresses as people write them. No message repeats one: it may hold a password.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use super::problem::Problems;
use super::{PageUrl, RedisAddress, Secret};

/// What `redis.addr` may look like, for messages.
pub(super) const REDIS_FORM: &str = "an address such as redis://HOST:6379 \
     (or rediss, valkey, valkeys; unix:///PATH for a socket)";

/// The port of a server whose address names none.
const REDIS_PORT: u16 = 6379;

/// All that an address of a server can say.
#[derive(Debug)]
pub(super) struct RedisUrl {
    pub(super) address: RedisAddress,
    /// Whether the scheme asks for TLS.
    pub(super) security: Security,
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
}

/// What the scheme says about encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// `redis`, `valkey`, `unix`.
    Plain,
    /// `rediss`, `valkeys`.
    Tls,
}

/// Reads the address of a server; problems go to `path`.
pub(super) fn redis(text: &str, path: &str, problems: &Problems) -> Option<RedisUrl> {
    match parse_redis(text) {
        Ok(url) => Some(url),
        Err(message) => {
            problems.add(path, message);
            None
        }
    }
}

fn parse_redis(text: &str) -> Result<RedisUrl, String> {
    let form = format!("write {REDIS_FORM}");
    if !text.contains("://") {
        return Err(format!("has no scheme; {form}"));
    }
    let url = Url::parse(text).map_err(|e| format!("{e}{}; {form}", hint(text)))?;
    let security = match url.scheme() {
        "redis" | "valkey" | "unix" | "redis+unix" => Security::Plain,
        "rediss" | "valkeys" => Security::Tls,
        _ => return Err(format!("has a scheme that is not known; {form}")),
    };
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!(
            "takes nothing after ? or #{}; user, password and TLS have keys of their own",
            hint(text)
        ));
    }
    let address = match url.scheme() {
        "unix" | "redis+unix" => socket(&url)?,
        _ => tcp(&url, text)?,
    };
    let username = match url.username() {
        "" => None,
        name => Some(
            String::from_utf8(percent_decode_str(name).collect())
                .map_err(|_| "has a user name that is not UTF-8".to_owned())?,
        ),
    };
    let password = url.password().map(|p| Secret::Inline(percent_decode_str(p).collect()));
    Ok(RedisUrl { address, security, username, password })
}

fn tcp(url: &Url, text: &str) -> Result<RedisAddress, String> {
    if !matches!(url.path(), "" | "/" | "/0") {
        return Err(format!(
            "takes no database{}; the counters of Redis cover all databases of a server, \
             so leave out what follows the port",
            hint(text)
        ));
    }
    let host = match url.host_str() {
        Some(host) if !host.is_empty() => host,
        _ => return Err(format!("has no host; write {REDIS_FORM}")),
    };
    let port = match url.port() {
        Some(0) => return Err("port 0 cannot be connected to; write a port from 1 to 65535".into()),
        port => port.unwrap_or(REDIS_PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = percent_decode_str(host).decode_utf8_lossy().into_owned();
    Ok(RedisAddress::Tcp { host, port })
}

fn socket(url: &Url) -> Result<RedisAddress, String> {
    if url.host_str().is_some_and(|host| !host.is_empty()) || url.path().len() < 2 {
        return Err("is not the path of a socket; write unix:///PATH, with three slashes".into());
    }
    let path = percent_decode_str(url.path()).decode_utf8_lossy().into_owned();
    Ok(RedisAddress::Unix(PathBuf::from(path)))
}

/// An application's page.
pub(super) const PAGE_FORM: &str = "an address such as http://HOST:PORT/metrics";

/// A Prometheus server.
pub(super) const PROMETHEUS_FORM: &str = "an address such as http://HOST:9090";

/// Reads an address of this form over HTTP; problems go to `path`.
pub(super) fn web(text: &str, form: &str, path: &str, problems: &Problems) -> Option<PageUrl> {
    let message = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => return Some(PageUrl(url.into())),
        Ok(_) => format!("is not http or https; write {form}"),
        Err(error) => format!("{error}{}; write {form}", hint(text)),
    };
    problems.add(path, message);
    None
}

/// A name for an application whose address is all that is known: `host:port`.
pub(super) fn page_name(url: &PageUrl) -> String {
    Url::parse(&url.0)
        .ok()
        .and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)))
        .unwrap_or_else(|| "app".to_owned())
}

/// A password with a raw `/`, `?` or `#` ends the host too early; then the reason given would
/// puzzle, so the cure is named.
fn hint(text: &str) -> &'static str {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    match rest.split_once(['/', '?', '#']) {
        Some((_, after)) if after.contains('@') => {
            " (in a user name or password write / as %2F, ? as %3F, # as %23, % as %25)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RedisUrl {
        parse_redis(text).unwrap()
    }

    #[test]
    fn schemes_hosts_and_ports() {
        let cases = [
            ("redis://cache", "cache:6379", Security::Plain),
            ("redis://cache:7000/", "cache:7000", Security::Plain),
            ("valkey://10.0.0.7:1", "10.0.0.7:1", Security::Plain),
            ("rediss://cache/0", "cache:6379", Security::Tls),
            ("valkeys://[::1]:7000", "[::1]:7000", Security::Tls),
            ("unix:///run/redis/a b.sock", "/run/redis/a b.sock", Security::Plain),
            ("redis+unix:///run/redis.sock", "/run/redis.sock", Security::Plain),
        ];
        for (text, node, security) in cases {
            let url = read(text);
            assert_eq!((url.address.to_string().as_str(), url.security), (node, security));
        }
    }

    #[test]
    fn user_and_password_are_percent_decoded_and_may_hold_anything() {
        let url = read("redis://us%40r:p%40ss%3Aw%2Frd%2541%23%3F@h");
        assert_eq!(url.username.as_deref(), Some("us@r"));
        assert_eq!(url.password, Some(Secret::Inline(b"p@ss:w/rd%41#?".to_vec())));
        let url = read("redis://:%FFp@ss@h");
        assert_eq!(url.username, None);
        assert_eq!(url.password, Some(Secret::Inline(b"\xffp@ss".to_vec())));
    }

    #[test]
    fn no_refusal_repeats_the_address() {
        let bad = [
            "CANARY",
            "redis://:CANARY/x@h",
            "redis://:CANARY?x@h",
            "redis://:CANARY#x@h",
            "http://CANARY@h",
            "redis://:CANARY@h:99999",
            "redis://:CANARY@h/3",
            "redis://:CANARY@",
            "redis://h?password=CANARY",
            "unix://CANARY/x",
            "redis://[CANARY",
        ];
        for text in bad {
            let message = parse_redis(text).unwrap_err();
            assert!(!message.contains("CANARY"), "{message}");
        }
    }

    #[test]
    fn a_page_must_be_http() {
        let problems = Problems::default();
        for text in ["ftp://h/", "h:80/metrics", "http://", "http://h:x/", "/metrics"] {
            assert_eq!(web(text, PAGE_FORM, "url", &problems), None, "{text}");
        }
        let url = web("https://u:p@h/metrics?q=s", PAGE_FORM, "url", &problems).unwrap();
        assert_eq!(page_name(&url), "h:443");
    }
}

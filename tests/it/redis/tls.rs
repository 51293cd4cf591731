//! TLS with certificates of the test's own.

use std::time::Duration;

use stampede_exporter::clock::Clock;
use stampede_exporter::config::{ClientCertificate, RedisConfig, Tls};
use stampede_exporter::one_line::one_line;
use stampede_exporter::source::redis::{Node, PollErrorKind};

use super::{config, failure, node};
use crate::support::tls::{Authority, EXPIRED, Identity, NO_CLIENTS, Server, VALID};

fn trusting(port: u16, authority: &Authority) -> RedisConfig {
    let tls = Tls { ca_file: Some(authority.ca_file.clone()), ..Tls::default() };
    RedisConfig { tls: Some(tls), ..config(port) }
}

fn with(mut config: RedisConfig, change: impl FnOnce(&mut Tls)) -> RedisConfig {
    change(config.tls.as_mut().unwrap());
    config
}

#[tokio::test]
async fn own_ca_client_certificate_and_server_name() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "ours");
    let identity = authority.sign(&["redis.example"], VALID);
    let server = Server::start(&authority, &identity, &[]);
    let client = authority.sign(&["client"], VALID);
    let Identity { cert_file, key_file } = client;
    let named = with(trusting(server.port, &authority), |tls| {
        tls.server_name = Some("redis.example".to_owned());
    });
    let (kind, text) = failure(&named).await;
    assert_eq!(kind, PollErrorKind::Tls, "the server wants a client certificate: {text}");
    let complete = with(named, |tls| tls.client = Some(ClientCertificate { cert_file, key_file }));
    node(&complete).poll().await.unwrap();
    let unnamed = with(complete, |tls| tls.server_name = None);
    let (kind, text) = failure(&unnamed).await;
    assert_eq!(kind, PollErrorKind::Tls);
    assert!(text.contains("certificate is not accepted"), "{text}");
}

#[tokio::test]
async fn both_versions_of_tls_and_an_address_in_the_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "ours");
    let identity = authority.sign(&["127.0.0.1"], VALID);
    for version in ["TLSv1.2", "TLSv1.3"] {
        let only = ["--tls-auth-clients", "no", "--tls-protocols", version];
        let server = Server::start(&authority, &identity, &only);
        node(&trusting(server.port, &authority)).poll().await.unwrap();
    }
}

#[tokio::test]
async fn certificates_that_are_not_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "ours");
    let stranger = Authority::new(dir.path(), "theirs");
    let good = authority.sign(&["127.0.0.1"], VALID);
    let expired = authority.sign(&["127.0.0.1"], EXPIRED);
    let server = Server::start(&authority, &good, &NO_CLIENTS);
    let unknown_ca = trusting(server.port, &stranger);
    let system_roots = with(trusting(server.port, &authority), |tls| tls.ca_file = None);
    let late = Server::start(&authority, &expired, &NO_CLIENTS);
    for config in [unknown_ca, system_roots, trusting(late.port, &authority)] {
        let (kind, text) = failure(&config).await;
        assert_eq!(kind, PollErrorKind::Tls, "{text}");
    }
    let (_, text) = failure(&trusting(late.port, &authority)).await;
    assert!(text.contains("expired"), "{text}");
}

#[tokio::test]
async fn files_that_are_not_there_or_not_what_they_should_be() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "ours");
    let identity = authority.sign(&["127.0.0.1"], VALID);
    let server = Server::start(&authority, &identity, &NO_CLIENTS);
    let good = trusting(server.port, &authority);
    let missing = dir.path().join("missing.pem");
    let not_pem = dir.path().join("not.pem");
    std::fs::write(&not_pem, "not a certificate").unwrap();
    let swapped = ClientCertificate {
        cert_file: identity.key_file.clone(),
        key_file: identity.cert_file.clone(),
    };
    let wrong = [
        with(good.clone(), |tls| tls.ca_file = Some(missing.clone())),
        with(good.clone(), |tls| tls.ca_file = Some(not_pem.clone())),
        with(good.clone(), |tls| tls.client = Some(swapped)),
        with(good, |tls| tls.server_name = Some("not a name".to_owned())),
    ];
    for config in &wrong {
        let (kind, text) = failure(config).await;
        assert_eq!(kind, PollErrorKind::Tls, "{text}");
    }
    let (_, text) = failure(&wrong[0]).await;
    assert!(text.contains("missing.pem"), "{text}");
}

#[tokio::test]
async fn certificates_are_read_again_at_the_next_connect() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "ours");
    let server = Server::start(&authority, &authority.sign(&["127.0.0.1"], VALID), &NO_CLIENTS);
    let bundle = dir.path().join("bundle.pem");
    let stranger = Authority::new(dir.path(), "theirs");
    std::fs::copy(&stranger.ca_file, &bundle).unwrap();
    let config = with(trusting(server.port, &authority), |tls| tls.ca_file = Some(bundle.clone()));
    let mut node = node(&config);
    assert_eq!(node.poll().await.unwrap_err().kind(), PollErrorKind::Tls);
    std::fs::copy(&authority.ca_file, &bundle).unwrap();
    node.poll().await.unwrap();
}

#[tokio::test]
async fn plain_text_on_a_tls_port_and_tls_on_a_plain_one() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "ours");
    let server = Server::start(&authority, &authority.sign(&["127.0.0.1"], VALID), &NO_CLIENTS);
    let (kind, text) = failure(&config(server.port)).await;
    assert_eq!(kind, PollErrorKind::Tls, "{text}");
    assert!(text.contains("use the rediss scheme"), "{text}");
    let limit = Duration::from_secs(1);
    let secure = trusting(server.redis.port, &authority);
    let error = Node::new(&secure, limit, Clock::start()).poll().await.unwrap_err();
    assert_eq!(error.kind(), PollErrorKind::Tls, "{}", one_line(&error));
    assert!(one_line(&error).contains("use the redis scheme"), "{}", one_line(&error));
}

#[tokio::test]
async fn a_tls_server_that_is_frozen_is_not_called_a_plain_one() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path(), "ours");
    let server = Server::start(&authority, &authority.sign(&["127.0.0.1"], VALID), &NO_CLIENTS);
    let limit = Duration::from_millis(300);
    let mut node = Node::new(&trusting(server.port, &authority), limit, Clock::start());
    server.redis.stop();
    assert_eq!(node.poll().await.unwrap_err().kind(), PollErrorKind::Timeout);
}

//! Which of plain text and TLS is spoken at a port, asked only after the other one failed there.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Whether a server answers plain text as Redis does: with a status or an error.
pub(super) async fn answers_plain_text(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    // Not INFO: whoever this is may not know us, and the shortest question will do.
    if stream.write_all(b"PING\r\n").await.is_err() {
        return false;
    }
    matches!(stream.read_u8().await, Ok(b'+' | b'-'))
}

/// Whether a server answers a TLS hello, whatever it thinks of us and we of its certificate.
pub(super) async fn answers_tls(host: &str, port: u16) -> bool {
    let Ok(stream) = TcpStream::connect((host, port)).await else { return false };
    let Ok(name) = ServerName::try_from(host.to_owned()) else { return false };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let Ok(versions) =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
    else {
        return false;
    };
    // Nobody is trusted, so nothing is ever said on this connection.
    let config = versions.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(_) => true,
        Err(error) => match error.get_ref().and_then(|cause| cause.downcast_ref()) {
            Some(rustls::Error::InvalidMessage(_)) | None => false,
            Some(_) => true,
        },
    }
}

//! TLS of a connection: whom to trust, who we are, and what went wrong in words.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::{PollError, PollErrorKind};
use crate::config::Tls;

/// Agrees on TLS with the server. Files are read each time, so that certificates can be renewed
/// under a running exporter.
pub(super) async fn secure(
    stream: TcpStream,
    tls: &Tls,
    host: &str,
) -> Result<TlsStream<TcpStream>, PollError> {
    let name = tls.server_name.as_deref().unwrap_or(host);
    let server = ServerName::try_from(name.to_owned())
        .map_err(|e| problem(format!("{name} cannot be in a certificate"), e))?;
    let config = client_config(tls).await?;
    TlsConnector::from(Arc::new(config)).connect(server, stream).await.map_err(no_agreement)
}

async fn client_config(tls: &Tls) -> Result<ClientConfig, PollError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trusting = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| problem("no TLS version is available", e))?
        .with_root_certificates(roots(tls.ca_file.as_deref()).await?);
    let Some(client) = &tls.client else { return Ok(trusting.with_no_client_auth()) };
    let chain = certificates(&client.cert_file).await?;
    let key = PrivateKeyDer::from_pem_slice(&read(&client.key_file).await?)
        .map_err(|e| problem(format!("no private key in {}", client.key_file.display()), e))?;
    trusting
        .with_client_auth_cert(chain, key)
        .map_err(|e| problem("the client certificate and its key do not work together", e))
}

/// The certificates to trust: the given bundle, or the system's.
async fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, PollError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            for certificate in certificates(file).await? {
                roots.add(certificate).map_err(|e| {
                    problem(format!("a certificate in {} is no CA's", file.display()), e)
                })?;
            }
        }
        None => {
            let system = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs)
                .await
                .map_err(|e| problem("the system's CA certificates were not read", e))?;
            // One odd file among the system's does not make the others worthless.
            roots.add_parsable_certificates(system.certs);
        }
    }
    if roots.is_empty() {
        return Err(PollError::new(PollErrorKind::Tls, "the system has no CA certificates"));
    }
    Ok(roots)
}

async fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, PollError> {
    let bytes = read(file).await?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => {
            let text = format!("no certificate in {}", file.display());
            Err(PollError::new(PollErrorKind::Tls, text))
        }
        Err(error) => Err(problem(format!("{} is not PEM", file.display()), error)),
    }
}

async fn read(file: &Path) -> Result<Vec<u8>, PollError> {
    let cannot = |e| problem(format!("cannot read {}", file.display()), e);
    tokio::fs::read(file).await.map_err(cannot)
}

/// Says what the handshake's error means for a person.
fn no_agreement(error: io::Error) -> PollError {
    let cause = error.get_ref().and_then(|e| (e as &(dyn Error + 'static)).downcast_ref());
    let text = match cause {
        Some(rustls::Error::InvalidMessage(_)) => "the server does not speak TLS on this port",
        Some(rustls::Error::InvalidCertificate(_)) => "the server's certificate is not accepted",
        Some(rustls::Error::AlertReceived(_)) => "the server refused the TLS handshake",
        Some(_) => "no TLS with the server",
        None => "the server closed the connection during the TLS handshake",
    };
    problem(text, error)
}

fn problem(text: impl Display, error: impl Error + Send + Sync + 'static) -> PollError {
    PollError::because(PollErrorKind::Tls, text.to_string(), error)
}

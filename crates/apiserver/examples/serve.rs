//! The API server alone, in memory, on a free port of the loopback: `cargo run -p basalt-apiserver --example serve -- FOLDER`.
//!
//! Writes certificates and `FOLDER/kubeconfig`, prints its path, and serves until it is interrupted.

use std::path::PathBuf;

use basalt_apiserver::http::{FaceOptions, Pki, Server, ServerOptions, index, serve_tls};
use basalt_apiserver::store::{Backend, Options, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: serve FOLDER")?);
    let pki = Pki::load_or_create(&folder.join("pki"), &["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let mut options = Options::new(Backend::Memory);
    options.indexer = index;
    let store = Store::open(options)?;
    let server = Server::new(
        store,
        ServerOptions {
            token: Some(pki.token()),
            ..ServerOptions::default()
        },
    );
    server.bootstrap().await?;
    let _workers = server.start_workers();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let kubeconfig = folder.join("kubeconfig");
    pki.write_kubeconfig(&kubeconfig, &format!("https://{}", listener.local_addr()?))?;
    println!("export KUBECONFIG={}", kubeconfig.display());
    let interrupted = async {
        // Without a signal handler the process ends at once, which is an end as well.
        let _ended = tokio::signal::ctrl_c().await;
    };
    serve_tls(listener, server, FaceOptions::new(pki.server_config()?), interrupted).await?;
    Ok(())
}

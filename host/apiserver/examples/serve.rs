//! Serves the built-in kinds from an embedded database until ctrl-C: `serve DATA_DIR [PORT]`.

use std::{net::Ipv4Addr, sync::Arc};

use pilothouse_apiserver::{ApiServer, ApiServerOptions, admission::NoAdmission};
use pilothouse_storage::{Embedded, EmbeddedOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let data_dir = arguments.next().ok_or("usage: serve DATA_DIR [PORT]")?;
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let options = ApiServerOptions {
        bind_address: Ipv4Addr::LOCALHOST.into(),
        secure_port: port,
        data_dir: data_dir.clone().into(),
        ..ApiServerOptions::default()
    };
    let storage = Embedded::open(EmbeddedOptions::new(format!("{data_dir}/db")))?;
    let server = ApiServer::start(options, Arc::new(storage), Arc::new(NoAdmission)).await?;
    println!("{} {}", server.url(), server.kubeconfig().display());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}

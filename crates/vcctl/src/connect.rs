//! From flags to a client: the kubeconfig given, `$KUBECONFIG`, `~/.kube/config`, or the cluster that we run in.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cli::Global;
use crate::error::CliError;

/// Long enough for a slow network, short enough for a person.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client and the address that it talks to.
pub(crate) async fn connect(global: &Global) -> Result<(Client, String), CliError> {
    let mut config = config(global).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|e| CliError::Kubeconfig(e.to_string()))?;
    Ok((client, server))
}

async fn config(global: &Global) -> Result<Config, CliError> {
    let fail = |e: &dyn std::fmt::Display| CliError::Kubeconfig(e.to_string());
    let options = KubeConfigOptions {
        context: global.context.clone(),
        ..KubeConfigOptions::default()
    };
    let found = match &global.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|e| fail(&e))?;
            Config::from_custom_kubeconfig(file, &options).await
        }
        None => Config::from_kubeconfig(&options).await,
    };
    let chosen = global.kubeconfig.is_some() || global.context.is_some();
    let config = match found {
        Ok(config) => Ok(config),
        Err(error) if chosen => Err(fail(&error)),
        // Nothing was asked for in particular: an address alone will do, and so will the cluster around us.
        Err(error) if global.master.is_none() => Config::incluster().map_err(|_| fail(&error)),
        Err(_) => Ok(Config::new(address(global.master.as_deref().unwrap_or_default())?)),
    };
    let mut config = config?;
    if let Some(master) = &global.master {
        config.cluster_url = address(master)?;
    }
    Ok(config)
}

/// An address with a scheme, so that a bare `host:port` cannot send a token in the clear by accident.
fn address<U: std::str::FromStr>(master: &str) -> Result<U, CliError> {
    let fail = || {
        CliError::Usage(format!(
            "--master {master:?} is not an address such as https://host:6443"
        ))
    };
    if !(master.starts_with("https://") || master.starts_with("http://")) {
        return Err(fail());
    }
    master.parse().map_err(|_| fail())
}

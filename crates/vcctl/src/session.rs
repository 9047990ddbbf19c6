//! One run of the program: where it talks to, and where its output goes.

use std::io::Write;

use basalt_api::ResourceKind;
use kube::api::ListParams;
use serde_json::Value;

use crate::cli::Global;
use crate::connect::connect;
use crate::error::CliError;
use crate::rest::{Reply, Rest};
use crate::terminal::{Look, neutral};

/// Flags, streams and, once it is needed, the connection.
pub(crate) struct Session<'a> {
    global: Global,
    out: &'a mut (dyn Write + Send),
    err: &'a mut (dyn Write + Send),
    rest: Option<Rest>,
    /// What stdout can show.
    pub(crate) look: Look,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        global: Global,
        out: &'a mut (dyn Write + Send),
        err: &'a mut (dyn Write + Send),
        look: Look,
    ) -> Self {
        Self {
            global,
            out,
            err,
            rest: None,
            look,
        }
    }

    /// A session that talks to a client that is already there.
    pub(crate) fn with_client(self, client: kube::Client) -> Self {
        Self {
            rest: Some(Rest {
                client,
                server: "this process".to_owned(),
            }),
            ..self
        }
    }

    /// Writes to stdout.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), CliError> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Writes a line for a person to stderr.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), CliError> {
        Ok(writeln!(self.err, "{line}")?)
    }

    /// Shows how far it is in one changing line, where somebody looks on; an empty text takes the line away.
    pub(crate) fn progress(&mut self, text: &str) -> Result<(), CliError> {
        if self.look.live {
            // Cut to the line, for a line that wraps cannot be written over.
            let text: String = neutral(text).chars().take(self.look.width.saturating_sub(1)).collect();
            write!(self.err, "\r{text}\u{1b}[K")?;
            self.err.flush()?;
        }
        Ok(())
    }

    /// Reports a failure after which the command goes on.
    pub(crate) fn tell_error(&mut self, error: &CliError) -> Result<(), CliError> {
        Ok(error.write_to(self.err)?)
    }

    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        Ok(self.out.flush()?)
    }

    /// The connection, made on first use.
    pub(crate) async fn rest(&mut self) -> Result<&Rest, CliError> {
        if self.rest.is_none() {
            let (client, server) = connect(&self.global).await?;
            self.rest = Some(Rest { client, server });
        }
        self.rest
            .as_ref()
            .ok_or_else(|| CliError::Kubeconfig("not connected".to_owned()))
    }

    /// The namespace to use when none is given.
    pub(crate) async fn namespace(&mut self, given: Option<String>) -> Result<String, CliError> {
        match given {
            Some(namespace) => Ok(namespace),
            None => Ok(self.rest().await?.client.default_namespace().to_owned()),
        }
    }

    /// All objects of a kind, each with its type.
    pub(crate) async fn list(
        &mut self,
        kind: ResourceKind,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<Vec<Value>, CliError> {
        let reply = self.rest().await?.list(kind, namespace, params).await?;
        let mut body = self.heed(reply)?;
        let Value::Array(mut items) = body["items"].take() else {
            return Ok(Vec::new());
        };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.entry("apiVersion").or_insert_with(|| kind.api_version.into());
            item.entry("kind").or_insert_with(|| kind.kind.into());
        }
        Ok(items)
    }

    pub(crate) async fn get(
        &mut self,
        kind: ResourceKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, CliError> {
        let reply = self.rest().await?.get(kind, namespace, name).await?;
        self.heed(reply)
    }

    /// Changes the given fields and no others. `verb` is the word for it in an error.
    pub(crate) async fn patch(
        &mut self,
        verb: &'static str,
        kind: ResourceKind,
        namespace: Option<&str>,
        name: &str,
        change: &Value,
    ) -> Result<Value, CliError> {
        let reply = self.rest().await?.patch(verb, kind, namespace, name, change).await?;
        self.heed(reply)
    }

    pub(crate) async fn create(
        &mut self,
        kind: ResourceKind,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value, CliError> {
        let reply = self.rest().await?.create(kind, namespace, object).await?;
        self.heed(reply)
    }

    pub(crate) async fn delete(
        &mut self,
        kind: ResourceKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, CliError> {
        let reply = self.rest().await?.delete(kind, namespace, name).await?;
        self.heed(reply)
    }

    /// Shows the server's warnings.
    fn heed(&mut self, reply: Reply) -> Result<Value, CliError> {
        for warning in &reply.warnings {
            self.tell(&format!("Warning: {}", neutral(warning)))?;
        }
        Ok(reply.body)
    }
}

//! The arguments of each plugin as typed settings, and how they are read from the words in a Job.
//!
//! The words follow Go's flags, as Volcano's do: `--key=value`, `--key value`, one dash or two, `--` ends
//! them, and a switch stands alone or says `=true` or `=false`. What is not understood is left out and named
//! in a warning, and everything else still counts.

use super::{Plugin, PluginWarning};

/// What an argument can hold.
trait Argument: Sized {
    /// A switch needs no value.
    const SWITCH: bool = false;

    /// Reads the value, or says in words what it must be.
    fn read(text: &str) -> Result<Self, &'static str>;
}

impl Argument for String {
    fn read(text: &str) -> Result<Self, &'static str> {
        Ok(text.to_owned())
    }
}

impl Argument for bool {
    const SWITCH: bool = true;

    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err("true or false"),
        }
    }
}

/// A port that a socket can listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(u16);

impl Port {
    /// The number, 1 to 65535.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl Argument for Port {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text.parse() {
            Ok(0) | Err(_) => Err("a port from 1 to 65535"),
            Ok(number) => Ok(Self(number)),
        }
    }
}

/// A time in whole seconds, more than none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(u32);

impl Seconds {
    /// How many.
    pub const fn count(self) -> u32 {
        self.0
    }
}

impl Argument for Seconds {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text.parse() {
            Ok(0) | Err(_) => Err("a number of seconds, 1 or more"),
            Ok(count) => Ok(Self(count)),
        }
    }
}

/// A folder in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(String);

impl Folder {
    /// Its path, from the root.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Argument for Folder {
    fn read(text: &str) -> Result<Self, &'static str> {
        if text.starts_with('/') && !text.contains(':') {
            Ok(Self(text.to_owned()))
        } else {
            Err("a path that begins with / and has no colon")
        }
    }
}

/// An image of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(String);

impl Image {
    /// Its reference.
    pub fn reference(&self) -> &str {
        &self.0
    }
}

impl Argument for Image {
    fn read(text: &str) -> Result<Self, &'static str> {
        if text.trim().is_empty() {
            Err("the name of an image")
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

/// A private key that somebody gave us: it never shows in a log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PrivateKey(String);

impl PrivateKey {
    /// The key's text; empty if none was given.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() {
            "PrivateKey()"
        } else {
            "PrivateKey(…)"
        })
    }
}

impl Argument for PrivateKey {
    fn read(text: &str) -> Result<Self, &'static str> {
        Ok(Self(text.to_owned()))
    }
}

/// One argument of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Whether it stands without a value.
    pub is_switch: bool,
}

/// The settings of one plugin.
pub(super) trait Settings: Default {
    /// Its arguments.
    const FLAGS: &'static [Flag];

    /// Takes one value in, or says in words what it must be.
    fn set(&mut self, flag: &str, value: &str) -> Result<(), &'static str>;
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty = $flag:literal, $default:expr;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Settings for $name {
            const FLAGS: &'static [Flag] = &[$(Flag { name: $flag, is_switch: <$kind as Argument>::SWITCH },)*];

            fn set(&mut self, flag: &str, value: &str) -> Result<(), &'static str> {
                match flag {
                    $($flag => self.$field = Argument::read(value)?,)*
                    _ => {}
                }
                Ok(())
            }
        }
    )*};
}

/// `env` has no arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env;

impl Settings for Env {
    const FLAGS: &'static [Flag] = &[];

    fn set(&mut self, _: &str, _: &str) -> Result<(), &'static str> {
        Ok(())
    }
}

settings! {
    /// `svc`: names for the pods, a file of hosts, a network policy.
    Svc {
        /// Names resolve before the pods are ready.
        publish_not_ready_addresses: bool = "publish-not-ready-addresses", false;
        /// Whether pods of others may connect.
        disable_network_policy: bool = "disable-network-policy", false;
        /// Whether the hosts are in the environment, and not only in the file.
        inject_hosts_env: bool = "inject-hosts-env", true;
    }

    /// `ssh`: a key that opens every pod of the job.
    Ssh {
        /// Folder of the key in the pods.
        key_file_path: Folder = "ssh-key-file-path", Folder(SSH_FOLDER.to_owned());
        /// The private key; empty to have one made.
        private_key: PrivateKey = "ssh-private-key", PrivateKey::default();
        /// The public key that belongs to it.
        public_key: String = "ssh-public-key", String::new();
        /// Port of the daemons.
        port: Port = "ssh-port", Port(22);
        /// The files can be read by others than root.
        no_root: bool = "no-root", false;
    }

    /// `pytorch`: who is rank 0, and who am I.
    Pytorch {
        /// Task of the master.
        master: String = "master", "master".to_owned();
        /// Task of the workers.
        worker: String = "worker", "worker".to_owned();
        /// Port of the master.
        port: Port = "port", Port(23456);
        /// Workers wait until the master answers.
        wait_master: bool = "wait-master-enabled", false;
        /// How long they wait.
        wait_timeout: Seconds = "wait-master-timeout", Seconds(300);
        /// What they wait with.
        wait_image: Image = "wait-master-image", Image("busybox:1.36.1".to_owned());
    }

    /// `tensorflow`: the cluster, and who am I.
    Tensorflow {
        /// Task of the parameter servers.
        ps: String = "ps", "ps".to_owned();
        /// Task of the workers.
        worker: String = "worker", "worker".to_owned();
        /// Task of the chief.
        chief: String = "chief", "chief".to_owned();
        /// Task of the evaluator.
        evaluator: String = "evaluator", "evaluator".to_owned();
        /// Port of every one.
        port: Port = "port", Port(2222);
    }

    /// `mpi`: the hosts that the master starts processes on.
    Mpi {
        /// Task of the master.
        master: String = "master", "master".to_owned();
        /// Task of the workers.
        worker: String = "worker", "worker".to_owned();
        /// Port of the daemons.
        port: Port = "port", Port(22);
    }

    /// `ray`: a head, and workers that join it.
    Ray {
        /// Task of the head.
        head: String = "head", "head".to_owned();
        /// Container of the head.
        head_container: String = "headContainer", "head".to_owned();
        /// Task of the workers.
        worker: String = "worker", "worker".to_owned();
        /// Container of the workers.
        worker_container: String = "workerContainer", "worker".to_owned();
        /// Port that workers join at.
        port: Port = "port", Port(6379);
        /// Port of the dashboard.
        dashboard_port: Port = "dashboardPort", Port(8265);
        /// Port of clients.
        client_port: Port = "clientPort", Port(10001);
    }

    /// `hcclrank`: a rank for Ascend devices.
    Hcclrank {
        /// Task of the masters.
        master: String = "master", "master".to_owned();
        /// Task of the workers.
        worker: String = "worker", "worker".to_owned();
    }
}

/// Where svc mounts the files with the names of all pods.
pub const HOSTS_FOLDER: &str = "/etc/volcano";
/// Where `ssh` looks for keys of root.
pub const SSH_FOLDER: &str = "/root/.ssh";

/// Reads the words of one plugin.
pub(super) fn read<S: Settings>(plugin: Plugin, words: &[String], warnings: &mut Vec<PluginWarning>) -> S {
    let mut settings = S::default();
    let mut words = words.iter().enumerate();
    while let Some((position, word)) = words.next() {
        let Some(text) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
            warnings.push(PluginWarning::NoFlag { plugin, position });
            continue;
        };
        if text.is_empty() && word == "--" {
            warnings.extend(words.map(|(position, _)| PluginWarning::NoFlag { plugin, position }));
            break;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let Some(flag) = S::FLAGS.iter().find(|flag| flag.name == name) else {
            warnings.push(if looks_like_a_flag(name) {
                PluginWarning::UnknownArgument {
                    plugin,
                    name: name.to_owned(),
                }
            } else {
                PluginWarning::NoFlag { plugin, position }
            });
            continue;
        };
        let value = value.or_else(|| {
            if flag.is_switch {
                Some("true")
            } else {
                words.next().map(|(_, value)| value.as_str())
            }
        });
        let set = value.map_or(Err("followed by a value"), |value| settings.set(flag.name, value));
        if let Err(must) = set {
            warnings.push(PluginWarning::BadValue {
                plugin,
                argument: flag.name,
                must,
            });
        }
    }
    settings
}

/// Whether a word may be shown as the name of an argument. A private key begins with dashes too.
fn looks_like_a_flag(name: &str) -> bool {
    const LENGTH_MAX: usize = 40;
    name.len() <= LENGTH_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

//! The environment of a container: everything that it states, resolved, and nothing of the server's.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret};

use super::fields::{self, Surroundings};
use super::trouble::Trouble;

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The objects of the pod's namespace that it refers to, as they are now; absent: they do not exist.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// By name.
    pub(crate) config_maps: BTreeMap<String, ConfigMap>,
    /// By name.
    pub(crate) secrets: BTreeMap<String, Secret>,
    /// Claims that exist.
    pub(crate) claims: Vec<String>,
}

/// Variables in the order in which they were first set; a later value replaces an earlier one.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    list: Vec<(String, String)>,
    place: HashMap<String, usize>,
}

impl Variables {
    pub(crate) fn set(&mut self, name: &str, value: String) {
        if let Some(slot) = self.place.get(name).and_then(|&at| self.list.get_mut(at)) {
            slot.1 = value;
        } else {
            self.place.insert(name.to_owned(), self.list.len());
            self.list.push((name.to_owned(), value));
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        let at = *self.place.get(name)?;
        self.list.get(at).map(|(_, value)| value.as_str())
    }

    /// `$(NAME)` becomes its value, `$$` one `$`; what is not defined stays as it is.
    pub(crate) fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(tail) = after.strip_prefix('$') {
                out.push('$');
                rest = tail;
            } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|t| t.split_once(')')) {
                match self.get(name) {
                    Some(value) => out.push_str(value),
                    None => out.extend(["$(", name, ")"]),
                }
                rest = tail;
            } else {
                out.push('$');
                rest = after;
            }
        }
        out.push_str(rest);
        out
    }

    /// All of them.
    pub(crate) fn into_list(self) -> Vec<(String, String)> {
        self.list
    }
}

/// The variables of one container.
pub(crate) fn variables(
    pod: &Pod,
    container: &Container,
    around: &Surroundings,
    sources: &Sources,
    standard: [(&str, String); 2],
) -> Result<Variables, Trouble> {
    let mut all = Variables::default();
    all.set("PATH", PATH.to_owned());
    for (name, value) in standard {
        all.set(name, value);
    }
    add_whole_objects(&mut all, container, sources)?;
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) => Some(all.expand(value)),
            (None, Some(from)) => referred(pod, container, around, sources, from)?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            if value.contains('\0') {
                let message = format!(
                    "container {}: variable {} holds a zero byte",
                    container.name, variable.name
                );
                return Err(Trouble::config(message));
            }
            all.set(&variable.name, value);
        }
    }
    Ok(all)
}

/// `envFrom`: every key of an object.
fn add_whole_objects(all: &mut Variables, container: &Container, sources: &Sources) -> Result<(), Trouble> {
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let mut found: Vec<(String, String)> = Vec::new();
        if let Some(wanted) = &from.config_map_ref {
            match sources.config_maps.get(&wanted.name) {
                Some(map) => found.extend(map.data.iter().flatten().map(|(k, v)| (k.clone(), v.clone()))),
                None if wanted.optional == Some(true) => {}
                None => return Err(Trouble::config(format!("configmap {:?} not found", wanted.name))),
            }
        }
        if let Some(wanted) = &from.secret_ref {
            match sources.secrets.get(&wanted.name) {
                Some(secret) => found.extend(secret_texts(secret)),
                None if wanted.optional == Some(true) => {}
                None => return Err(Trouble::config(format!("secret {:?} not found", wanted.name))),
            }
        }
        for (key, value) in found {
            let name = format!("{prefix}{key}");
            // As in Kubernetes, a key that cannot be a variable is left out.
            if !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') {
                all.set(&name, value);
            }
        }
    }
    Ok(())
}

fn secret_texts(secret: &Secret) -> impl Iterator<Item = (String, String)> {
    secret
        .data
        .iter()
        .flatten()
        .filter_map(|(key, bytes)| Some((key.clone(), String::from_utf8(bytes.0.clone()).ok()?)))
}

/// `valueFrom`; absent for an optional one that is not there.
fn referred(
    pod: &Pod,
    container: &Container,
    around: &Surroundings,
    sources: &Sources,
    from: &EnvVarSource,
) -> Result<Option<String>, Trouble> {
    let missing = |optional: Option<bool>, what: String| match optional {
        Some(true) => Ok(None),
        _ => Err(Trouble::config(what)),
    };
    if let Some(selector) = &from.field_ref {
        return fields::field(pod, around, &selector.field_path)
            .map(Some)
            .ok_or_else(|| {
                let message = format!(
                    "container {}: there is no field {:?}",
                    container.name, selector.field_path
                );
                Trouble::refused("InvalidFieldRef", message)
            });
    }
    if let Some(selector) = &from.resource_field_ref {
        return fields::resource(
            container_named(pod, container, selector.container_name.as_deref()),
            around,
            selector,
        )
        .map(Some);
    }
    if let Some(selector) = &from.config_map_key_ref {
        let Some(map) = sources.config_maps.get(&selector.name) else {
            return missing(selector.optional, format!("configmap {:?} not found", selector.name));
        };
        let value = map.data.as_ref().and_then(|data| data.get(&selector.key)).cloned();
        return match value {
            Some(value) => Ok(Some(value)),
            None => missing(
                selector.optional,
                format!("couldn't find key {} in ConfigMap {:?}", selector.key, selector.name),
            ),
        };
    }
    if let Some(selector) = &from.secret_key_ref {
        let Some(secret) = sources.secrets.get(&selector.name) else {
            return missing(selector.optional, format!("secret {:?} not found", selector.name));
        };
        let bytes = secret.data.as_ref().and_then(|data| data.get(&selector.key));
        return match bytes.map(|bytes| String::from_utf8(bytes.0.clone())) {
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) => Err(Trouble::config(format!(
                "key {} in Secret {:?} is no text",
                selector.key, selector.name
            ))),
            None => missing(
                selector.optional,
                format!("couldn't find key {} in Secret {:?}", selector.key, selector.name),
            ),
        };
    }
    let message = format!("container {}: a valueFrom that is not known here", container.name);
    Err(Trouble::refused("InvalidValueFrom", message))
}

/// The container that a `resourceFieldRef` names, or the one that it stands in.
pub(crate) fn container_named<'a>(pod: &'a Pod, own: &'a Container, name: Option<&str>) -> &'a Container {
    let Some(name) = name.filter(|n| !n.is_empty()) else {
        return own;
    };
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|s| s.init_containers.as_ref());
    spec.iter()
        .flat_map(|s| &s.containers)
        .chain(init.into_iter().flatten())
        .find(|c| c.name == name)
        .unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::super::fields::tests::around;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn expansion() {
        let mut known = Variables::default();
        known.set("A", "1".to_owned());
        known.set("B", "$(A)".to_owned());
        let check = |text: &str, expected: &str| assert_eq!(known.expand(text), expected, "{text}");
        check("", "");
        check("plain", "plain");
        check("$(A)", "1");
        check("x$(A)y$(A)", "x1y1");
        check("$$(A)", "$(A)");
        check("$$$(A)", "$1");
        check("$(B)", "$(A)");
        check("$(NONE)", "$(NONE)");
        check("$(A", "$(A");
        check("$A ${A} $", "$A ${A} $");
        check("$()", "$()");
        check("price: 5$", "price: 5$");
        check("é$(A)é", "é1é");
    }

    fn sources() -> Sources {
        let map = json!({"metadata": {"name": "m"}, "data": {"k": "v", "a=b": "odd", "other": "o"}});
        let secret = json!({"metadata": {"name": "s"}, "data": {"pass": "c2VjcmV0", "bin": "//79"}});
        Sources {
            config_maps: [("m".to_owned(), serde_json::from_value(map).unwrap())].into(),
            secrets: [("s".to_owned(), serde_json::from_value(secret).unwrap())].into(),
            claims: Vec::new(),
        }
    }

    fn check(env: Value, env_from: Value, expected: Result<&[(&str, &str)], &str>) {
        let container: Container =
            serde_json::from_value(json!({"name": "c", "env": env, "envFrom": env_from})).unwrap();
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": []}})).unwrap();
        let standard = [("HOME", "/".to_owned()), ("HOSTNAME", "h".to_owned())];
        let found = variables(&pod, &container, &around(), &sources(), standard);
        let found = found
            .map(|all| all.into_list().split_off(3))
            .map_err(|trouble| match trouble {
                Trouble::Waits { message, .. } | Trouble::Refused { message, .. } => message,
            });
        let expected = expected
            .map(|list| {
                list.iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect::<Vec<_>>()
            })
            .map_err(str::to_owned);
        assert_eq!(found, expected, "{env} {env_from}");
    }

    #[test]
    fn variables_of_a_container() {
        let none = json!([]);
        let from = |value: Value| json!([{"name": "X", "valueFrom": value}]);
        check(none.clone(), none.clone(), Ok(&[]));
        check(
            json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C"}]),
            none.clone(),
            Ok(&[("A", "1"), ("B", "1$(C)"), ("C", "")]),
        );
        check(
            json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]),
            none.clone(),
            Ok(&[("A", "12")]),
        );
        check(
            from(json!({"fieldRef": {"fieldPath": "metadata.name"}})),
            none.clone(),
            Ok(&[("X", "p")]),
        );
        check(
            from(json!({"fieldRef": {"fieldPath": "metadata.no"}})),
            none.clone(),
            Err("container c: there is no field \"metadata.no\""),
        );
        check(
            from(json!({"resourceFieldRef": {"resource": "limits.cpu"}})),
            none.clone(),
            Ok(&[("X", "4")]),
        );
    }

    #[test]
    fn variables_of_objects() {
        let none = json!([]);
        let from = |value: Value| json!([{"name": "X", "valueFrom": value}]);
        check(
            from(json!({"configMapKeyRef": {"name": "m", "key": "k"}})),
            none.clone(),
            Ok(&[("X", "v")]),
        );
        check(
            from(json!({"configMapKeyRef": {"name": "m", "key": "no"}})),
            none.clone(),
            Err("couldn't find key no in ConfigMap \"m\""),
        );
        check(
            from(json!({"configMapKeyRef": {"name": "m", "key": "no", "optional": true}})),
            none.clone(),
            Ok(&[]),
        );
        check(
            from(json!({"configMapKeyRef": {"name": "no", "key": "k"}})),
            none.clone(),
            Err("configmap \"no\" not found"),
        );
        check(
            from(json!({"secretKeyRef": {"name": "s", "key": "pass"}})),
            none.clone(),
            Ok(&[("X", "secret")]),
        );
        check(
            from(json!({"secretKeyRef": {"name": "s", "key": "bin"}})),
            none.clone(),
            Err("key bin in Secret \"s\" is no text"),
        );
        check(
            from(json!({"secretKeyRef": {"name": "no", "key": "k", "optional": true}})),
            none.clone(),
            Ok(&[]),
        );
        check(
            json!([{"name": "P_k", "value": "own"}]),
            json!([{"prefix": "P_", "configMapRef": {"name": "m"}}]),
            Ok(&[("P_k", "own"), ("P_other", "o")]),
        );
        check(
            none.clone(),
            json!([{"secretRef": {"name": "s"}}]),
            Ok(&[("pass", "secret")]),
        );
        check(
            none.clone(),
            json!([{"secretRef": {"name": "no"}}]),
            Err("secret \"no\" not found"),
        );
        check(
            none,
            json!([{"configMapRef": {"name": "no", "optional": true}}]),
            Ok(&[]),
        );
    }
}

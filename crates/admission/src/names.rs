//! Well-known names.
pub(crate) const ROOT_QUEUE: &str = "root";
pub(crate) const DEFAULT_QUEUE: &str = "default";
pub(crate) const SCHEDULER_NAME: &str = "volcano";
pub(crate) const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
pub(crate) const QUEUE_NAME: &str = "scheduling.volcano.sh/queue-name";
pub(crate) const HIERARCHY: &str = "volcano.sh/hierarchy";
pub(crate) const HIERARCHY_WEIGHTS: &str = "volcano.sh/hierarchy-weights";

// All texts of the page, so that they can be translated in one place.
export const texts = {
  cluster: "Cluster", nodes: "nodes", pods: "pods", waiting: "waiting", freeCPUs: "free CPUs",
  search: "Find nodes", useCPUs: "CPUs in use", useMemory: "Memory in use", colour: "Colour by",
  free: "free", some: "half in use", full: "in use",
  keys: "Arrow keys choose a node, Enter opens it.",
  loading: "Reading the cluster …", noNodes: "There is no node that you may read.", noMatch: "No node has such a name.",
  waitingPods: "Waiting pods", limits: "What you may not read", live: "live", stale: "not connected, trying again",
  signedOut: "You are not signed in. Run “kubectl tenon console” again, and open the address that it prints.",
  holds: "What pods hold", pod: "Pod", numa: "NUMA node", cpus: "CPUs", memory: "Memory", devices: "Devices",
  source: "Known by", node: "Node", fits: "fits", not: "does not fit", why: "Why", remedy: "What helps", where: "Where it fits",
  held: "What it holds", since: "Waits since", phase: "Phase", policy: "Policy", noReport: "Nothing is known of its NUMA nodes",
  unknown: "unknown pods", noPods: "No pod holds anything here.", of: "of", missing: "Not judged", more: "more nodes",
};

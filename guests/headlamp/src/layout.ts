// What a NodeLayout says, as boxes of NUMA nodes. It depends on no library, so that it is tested without a page.

export interface CPUGroup {
  numa: number;
  socket: number;
  cpus: string[];
}

export interface Container {
  name?: string;
  cpus?: string;
  memory?: { kind: string; numas: string; bytes: number }[];
  devices?: { resource: string; ids: string[] }[];
}

export interface PodHoldings {
  namespace: string;
  name: string;
  uid: string;
  containers?: Container[];
}

// NodeLayout is a NodeLayout or a LayoutBase. A NodeLayout with a base has only what has changed since.
export interface NodeLayout {
  sequence?: number;
  agent?: { id?: string };
  base?: number;
  ended?: string[];
  machine?: {
    numas?: { id: number; memory: number }[];
    cpus?: CPUGroup[];
    devices?: { resource: string; groups: { numas?: string; unhealthy?: boolean; ids: string[] }[] }[];
  };
  rules?: { reservedCPUs?: string };
  holdings?: PodHoldings[];
}

// whole returns a layout with the data of the base that it continues, or null if that base is not this one. If the base
// was written after the layout, it is the newer of the two.
export function whole(layout: NodeLayout, base: NodeLayout | null): NodeLayout | null {
  if (!layout.base) return layout;
  if (!base) return null;
  if (base.sequence !== layout.base || base.agent?.id !== layout.agent?.id) {
    return (base.sequence ?? 0) > (layout.sequence ?? 0) ? base : null;
  }
  const changed = new Map((layout.holdings || []).map(p => [p.uid, p]));
  const ended = new Set(layout.ended || []);
  const kept = (base.holdings || []).filter(p => !ended.has(p.uid) || changed.has(p.uid));
  const before = new Set(kept.map(p => p.uid));
  return {
    ...base,
    holdings: [...kept.map(p => changed.get(p.uid) ?? p), ...[...changed.values()].filter(p => !before.has(p.uid))],
  };
}

export type State = 'free' | 'held' | 'marked' | 'reserved';

export interface Cell {
  id: string;
  state: State;
  holder: string; // "namespace/name" of a pod, or ""
}

export interface Box {
  numa: number;
  socket: number;
  cpus: Cell[];
  devices: { resource: string; cells: Cell[] }[];
}

// maxID bounds ids: lists come from nodes, and "0-999999999" must not fill the memory.
const maxID = 16384;

// ids reads a list in the form of Linux, such as "0-2,8", in ascending order. What is none is left out.
export function ids(list: string | undefined): number[] {
  const out = new Set<number>();
  for (const part of (list || '').split(',')) {
    const m = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part.trim());
    if (!m) continue;
    const last = Math.min(Number(m[2] ?? m[1]), maxID);
    for (let id = Number(m[1]); id <= last; id++) out.add(id);
  }
  return [...out].sort((a, b) => a - b);
}

// boxes returns the NUMA nodes of a layout in ascending order, with who holds which CPU and device. Those of the pod
// with the UID are marked.
export function boxes(layout: NodeLayout, marked = ''): Box[] {
  const cpus = new Map<number, PodHoldings>();
  const devices = new Map<string, PodHoldings>();
  for (const pod of layout.holdings || []) {
    for (const c of pod.containers || []) {
      for (const id of ids(c.cpus)) cpus.set(id, pod);
      for (const d of c.devices || []) {
        for (const id of d.ids || []) devices.set(d.resource + ' ' + id, pod);
      }
    }
  }
  const reserved = new Set(ids(layout.rules?.reservedCPUs));
  const cell = (id: string, pod: PodHoldings | undefined, kept: boolean): Cell => ({
    id,
    state: pod ? (marked && pod.uid === marked ? 'marked' : 'held') : kept ? 'reserved' : 'free',
    holder: pod ? pod.namespace + '/' + pod.name : '',
  });
  const numas = [...(layout.machine?.numas || [])].sort((a, b) => a.id - b.id);
  return numas.map(({ id: numa }) => {
    const groups = (layout.machine?.cpus || []).filter(g => g.numa === numa);
    const all = ids(groups.flatMap(g => g.cpus).join(','));
    const near = (layout.machine?.devices || []).map(r => ({
      resource: r.resource,
      cells: r.groups
        .filter(g => ids(g.numas).includes(numa))
        .flatMap(g => g.ids.map(id => cell(id, devices.get(r.resource + ' ' + id), !!g.unhealthy))),
    }));
    return {
      numa,
      socket: groups[0]?.socket ?? 0,
      cpus: all.map(id => cell(String(id), cpus.get(id), reserved.has(id))),
      devices: near.filter(r => r.cells.length > 0),
    };
  });
}

// summary says what is free of a NUMA node.
export function summary(box: Box): string {
  const free = (cells: Cell[]) => cells.filter(c => c.state === 'free').length;
  const text = [`${free(box.cpus)} of ${box.cpus.length} CPUs free`];
  for (const d of box.devices) text.push(`${free(d.cells)} of ${d.cells.length} ${d.resource} free`);
  return text.join(', ');
}

// Draws a node, and the node of a pod, by NUMA node on their pages in Headlamp. It reads NodeLayouts and LayoutBases with
// the rights of the person, and writes nothing. All texts are text of React, so none of them can become a script.
import { DetailsViewSectionProps, K8s, registerDetailsViewSection } from '@kinvolk/headlamp-plugin/lib';
import { SectionBox } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Box, boxes, Cell, NodeLayout, State, summary, whole } from './layout';

const NodeLayouts = K8s.crd.makeCustomResourceClass({
  apiInfo: [{ group: 'tenon.sh', version: 'v1alpha1' }],
  kind: 'NodeLayout',
  pluralName: 'nodelayouts',
  singularName: 'nodelayout',
  isNamespaced: false,
});

const LayoutBases = K8s.crd.makeCustomResourceClass({
  apiInfo: [{ group: 'tenon.sh', version: 'v1alpha1' }],
  kind: 'LayoutBase',
  pluralName: 'layoutbases',
  singularName: 'layoutbase',
  isNamespaced: false,
});

const colours: Record<State, string> = { free: 'transparent', held: '#78909c', marked: '#1e88e5', reserved: '#bdbdbd' };

function Cells({ cells, name }: { cells: Cell[]; name: string }) {
  return (
    <div role="list" aria-label={name} style={{ display: 'flex', flexWrap: 'wrap', gap: 2 }}>
      {cells.map(c => (
        <span
          key={c.id}
          role="listitem"
          title={`${name} ${c.id}: ${c.holder || c.state}`}
          style={{ minWidth: 28, padding: 2, fontSize: 11, textAlign: 'center', border: '1px solid #90a4ae', background: colours[c.state] }}
        >
          {c.id}
        </span>
      ))}
    </div>
  );
}

function NUMANode({ box }: { box: Box }) {
  return (
    <section style={{ flex: '1 1 320px', border: '1px solid #90a4ae', borderRadius: 4, padding: 12 }}>
      <h3 style={{ margin: 0 }}>
        NUMA node {box.numa} · socket {box.socket}
      </h3>
      <p>{summary(box)}</p>
      <Cells cells={box.cpus} name="CPU" />
      {box.devices.map(d => (
        <div key={d.resource}>
          <p>{d.resource}</p>
          <Cells cells={d.cells} name={d.resource} />
        </div>
      ))}
    </section>
  );
}

function Drawing({ node, pod }: { node: string; pod: string }) {
  const [layout, error] = NodeLayouts.useGet(node);
  const [base, missing] = LayoutBases.useGet(node);
  if (error) {
    const why = (error as { status?: number }).status === 404 ? 'The node has no NodeLayout: no agent reports on it.' : String(error);
    return <SectionBox title="NUMA nodes">{why}</SectionBox>;
  }
  if (!layout) return null;
  const complete = whole(layout.jsonData as unknown as NodeLayout, (base?.jsonData as unknown as NodeLayout) ?? null);
  if (!complete) {
    return <SectionBox title="NUMA nodes">{missing ? String(missing) : 'The LayoutBase of the node has not arrived.'}</SectionBox>;
  }
  const all = boxes(complete, pod);
  return (
    <SectionBox title="NUMA nodes">
      <div style={{ display: 'flex', flexWrap: 'wrap', gap: 12 }}>
        {all.map(b => (
          <NUMANode key={b.numa} box={b} />
        ))}
      </div>
    </SectionBox>
  );
}

registerDetailsViewSection(({ resource }: DetailsViewSectionProps) => {
  if (resource?.kind === 'Node') return <Drawing node={resource.metadata.name} pod="" />;
  const node = resource?.kind === 'Pod' ? resource.jsonData?.spec?.nodeName : '';
  return node ? <Drawing node={node} pod={resource?.metadata.uid ?? ''} /> : null;
});

import { describe, expect, it } from 'vitest';
import { boxes, ids, NodeLayout, PodHoldings, summary, whole } from './layout';

const layout: NodeLayout = {
  machine: {
    numas: [
      { id: 8, memory: 1 },
      { id: 0, memory: 1 },
    ],
    cpus: [
      { numa: 0, socket: 0, cpus: ['0-1', '4-5'] },
      { numa: 8, socket: 1, cpus: ['2-3'] },
    ],
    devices: [
      {
        resource: 'x.io/gpu',
        groups: [
          { numas: '0', ids: ['g0'] },
          { numas: '0,8', unhealthy: true, ids: ['g1'] },
        ],
      },
    ],
  },
  rules: { reservedCPUs: '0' },
  holdings: [
    {
      namespace: 'ml',
      name: 'p',
      uid: 'u',
      containers: [{ cpus: '1,5', devices: [{ resource: 'x.io/gpu', ids: ['g0'] }] }],
    },
    { namespace: 'db', name: '<img src=x>', uid: 'v', containers: [{ cpus: '2' }] },
  ],
};

describe('ids', () => {
  it('reads lists of Linux', () => expect(ids('8,0-2,1')).toEqual([0, 1, 2, 8]));
  it('leaves out what is none', () => expect(ids('x,-1,3-,4,1-0')).toEqual([4]));
  it('is bounded', () => expect(ids('0-999999').length).toBe(16385));
  it('takes no list', () => expect(ids(undefined)).toEqual([]));
});

describe('boxes', () => {
  const got = boxes(layout, 'u');
  it('has NUMA nodes in order', () => expect(got.map(b => [b.numa, b.socket])).toEqual([[0, 0], [8, 1]]));
  it('says who holds each CPU', () =>
    expect(got[0].cpus.map(c => c.id + ' ' + c.state)).toEqual(['0 reserved', '1 marked', '4 free', '5 marked']));
  it('marks one pod alone', () => expect(got[1].cpus[0]).toEqual({ id: '2', state: 'held', holder: 'db/<img src=x>' }));
  it('has devices near each NUMA node', () => {
    expect(got[0].devices[0].cells.map(c => c.state)).toEqual(['marked', 'reserved']);
    expect(got[1].devices[0].cells.map(c => c.id)).toEqual(['g1']);
  });
  it('sums up what is free', () => expect(summary(got[1])).toBe('1 of 2 CPUs free, 0 of 1 x.io/gpu free'));
  it('takes an empty layout', () => expect(boxes({})).toEqual([]));
});

describe('whole', () => {
  const pod = (uid: string, cpus: string): PodHoldings => ({ namespace: 'n', name: uid, uid, containers: [{ cpus }] });
  const base: NodeLayout = { sequence: 20, agent: { id: 'a' }, rules: { reservedCPUs: '0' }, holdings: [pod('x', '1'), pod('y', '2')] };
  const next = (o: Partial<NodeLayout>): NodeLayout => ({ sequence: 21, agent: { id: 'a' }, base: 20, ...o });
  const held = (l: NodeLayout | null) => l && (l.holdings || []).map(p => p.uid + '=' + p.containers?.[0].cpus).join(' ');
  it('takes a layout without a base as it is', () => expect(whole(layout, null)).toBe(layout));
  it('has what is in the base', () => expect(whole(next({}), base)?.rules?.reservedCPUs).toBe('0'));
  it('drops pods that ended', () => expect(held(whole(next({ ended: ['x'] }), base))).toBe('y=2'));
  it('replaces in place and appends', () => expect(held(whole(next({ holdings: [pod('z', '4'), pod('x', '3')] }), base))).toBe('x=3 y=2 z=4'));
  it('lets a pod change that is said to have ended', () =>
    expect(held(whole(next({ ended: ['x'], holdings: [pod('x', '3')] }), base))).toBe('x=3 y=2'));
  it('takes a later base', () => expect(held(whole(next({ sequence: 19, base: 10 }), base))).toBe('x=1 y=2'));
  it('knows that the base is another', () => {
    expect(whole(next({ sequence: 31, base: 30 }), base)).toBeNull();
    expect(whole(next({ agent: { id: 'b' } }), base)).toBeNull();
    expect(whole(next({}), null)).toBeNull();
  });
});

package kube

// memory is a map of bounded size that forgets the oldest keys: it has at least the last maxRemembered/2 keys that
// were put, and at most maxRemembered. The zero memory is empty.
type memory[V any] struct {
	young, old map[string]V
}

const maxRemembered = 1 << 14

func (m *memory[V]) put(key string, value V) {
	if len(m.young) >= maxRemembered/2 {
		m.old, m.young = m.young, nil
	}
	if m.young == nil {
		m.young = map[string]V{}
	}
	m.young[key] = value
}

func (m *memory[V]) get(key string) (V, bool) {
	if v, ok := m.young[key]; ok {
		return v, true
	}
	v, ok := m.old[key]
	return v, ok
}

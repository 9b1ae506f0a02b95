// Package rights gives programs their rights on a running API server: it applies manifests, makes the access of
// service accounts, and writes it to kubeconfig files.
//
// Invariant: an access that it returns has the rights that the server grants the account, and no others. The package
// starts nothing, and links no server.
package rights

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Account names a service account, and the node to which its token is bound.
type Account struct {
	Namespace, Name string
	// Node is the node to which the token is bound, like the token of a pod. The API server reads the node from the
	// token, and rejects the token when that Node is deleted. Empty means a token that is bound to no node.
	Node string
}

// tokenLife is the validity of a service account's token: longer than a lab lives, so that no token has to be renewed.
const tokenLife = 24 * time.Hour

// As returns an access with a new token of a service account, to the same server as the administrator's access. The
// account, and the Node if one is named, must exist.
func As(ctx context.Context, administrator *rest.Config, a Account) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(administrator)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	want := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(int64(tokenLife.Seconds()))}}
	if a.Node != "" {
		want.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: a.Node}
	}
	got, err := client.CoreV1().ServiceAccounts(a.Namespace).CreateToken(ctx, a.Name, want, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make token of %s/%s for node %q: %w", a.Namespace, a.Name, a.Node, err)
	}
	out := rest.CopyConfig(administrator)
	out.BearerToken = got.Status.Token
	return out, nil
}

// WriteKubeconfig writes an access, with a bearer token and the CA as data, to a file that only its owner can read.
func WriteKubeconfig(path, user string, c *rest.Config) error {
	k := clientcmdapi.NewConfig()
	k.Clusters["tenon-lab"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	k.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	k.Contexts["tenon-lab"] = &clientcmdapi.Context{Cluster: "tenon-lab", AuthInfo: user}
	k.CurrentContext = "tenon-lab"
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

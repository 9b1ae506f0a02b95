package bundle

import (
	"strings"
	"testing"
)

// Each text has the credential hunter2, or the credential that the case names.
func TestCredentialsAreRemovedInEveryUsualForm(t *testing.T) {
	const random = "wJalrXUtnFEMI7K7MDENGbPxRfiCYEXAMPLEKEY12"
	for _, text := range []string{
		"password=hunter2", "password = hunter2", "password: hunter2", "password:hunter2", "PASSWORD='hunter2'",
		`Password="hunter2"`, "passwd=hunter2", "pwd=hunter2", "DB_PASSWORD=hunter2", "MYSQL_PWD=hunter2",
		"PGPASSWORD=hunter2 psql", "--password hunter2", "--password=hunter2", "-password hunter2",
		"--db-password 'hunter2'",
		"--token hunter2", "--api-key hunter2", "--client-secret=hunter2",
		"curl -u admin:hunter2 https://x.example",
		"curl --user admin:hunter2", "sshpass -p hunter2 ssh x", "mysql -u root -phunter2",
		"redis://:hunter2@cache:6379/0",
		"postgres://me:hunter2@db/x", "amqp://hunter2@mq", "https://me:hunter2@example.com/x",
		"me:hunter2@tcp(db:3306)/x",
		"mongodb+srv://a:hunter2@c0.example/x", "Server=db;User Id=sa;Password=hunter2;",
		"AccountKey=hunter2;EndpointSuffix=x",
		"https://x.blob.example/c?sv=1&sig=hunter2&se=2", "https://x.example/?token=hunter2",
		"https://x/?api_key=hunter2",
		"https://s3/x?X-Amz-Signature=hunter2", "https://x/?access_token=hunter2#x",
		`{"name":"DB_PASSWORD","value":"hunter2"}`,
		`{"name": "API_TOKEN", "value": "hunter2"}`, "- name: DB_PASSWORD\n  value: hunter2",
		`{"password":"hunter2"}`,
		`{"password": "hunter2"}`, `{\"password\":\"hunter2\"}`, `{"client_secret" : "hunter2"}`,
		"token: hunter2",
		"secret = hunter2", `secret:"hunter2"`, "apiKey: hunter2", "api_key=hunter2",
		"aws_secret_access_key = hunter2",
		"private_key=hunter2", "Authorization: Bearer hunter2", "Authorization: Basic hunter2=",
		"authorization=token hunter2",
		"Bearer hunter2", "Proxy-Authorization: x hunter2", "Cookie: session=hunter2",
		"Set-Cookie: a=hunter2; Path=/",
		"X-Api-Key: hunter2", "X-Vault-Token: hunter2", "the password is hunter2", `wrong password "hunter2"`,
		"<password>hunter2</password>", "config['secret'] = 'hunter2'", "password => hunter2",
		"passphrase: hunter2",
		"dockerconfigjson: hunter2", "key ASIAHUNTER2HUNTER222 x",
		"-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
		"-----BEGIN OPENSSH PRIVATE KEY-----hunter2", "https://hooks.slack.com/services/T0/B0/hunter2",
		"ghp_hunter2hunter2hunter2",
		"github_pat_hunter2_hunter2", "glpat-hunter2hunter2", "xoxb-12345-hunter2",
		"sk-proj-hunter2hunter2", "AIzahunter2hunter2",
		"hvs.hunter2hunter2", "npm_hunter2hunter2", "dckr_pat_hunter2hunter2", "hf_hunter2hunter2",
		"SG.hunter2.hunter2",
		"eyJhbGciOiJSUzI1NiJ9.hunter2hunter2.c2lnbmF0dXJl", "AWS key " + random, "x=" + random,
	} {
		got := redact(text)
		if lower := strings.ToLower(got); strings.Contains(lower, "hunter2") || strings.Contains(got, random) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// Texts that a diagnosis needs stay unchanged.
func TestTextsWithoutCredentialsStay(t *testing.T) {
	for _, text := range []string{
		"0/10 nodes are available: 10 Insufficient cpu", `secret "db-creds" not found`, "secretName: db-creds",
		"MountVolume.SetUp failed for volume \"kube-api-access-x7k2p\" : object \"ml\"/\"kube-root-ca.crt\" not registered",
		"registry.example.com/secret-app:v1.2", "example.com/token-service:v1@sha256:" + strings.Repeat("0a", 32),
		"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "tokenExpirationSeconds: 3600",
		"serviceAccountName: token-reader",
		"basic authentication is off", "/var/lib/kubelet/pods/8932f937-d72c-4106-c12f-20bd9faed9f6/volumes",
		"TopologyAffinityError: Resources cannot be allocated with Topology locality", "passwordPolicy: strict",
		"tenon_predictions_total{result=\"confirmed\",node=\"node-a\"} 12", "cpu: 4, memory: 8Gi",
		"token-refresher-7d9f-abcde",
		"https://example.com/path?limit=500&continue=x",
		"I1123 12:00:01.000000 1 publish.go:42] published layout node=node-a",
		"restarting container, exit code 137", "10.0.0.1:9201: connection refused", "0-3,64-67",
	} {
		if got := redact(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

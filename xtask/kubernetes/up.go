package main

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The administrator's token; the server listens on loopback alone, and lives as long as a test.
const token = "administrator"

// Who does what to which objects, but not with which content: enough to see which rights are used.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// part is one of the programs, started again whenever it ends, as a static pod is.
type part struct {
	name  string
	flags []string
}

// up runs the engine in a folder until it is told to stop, and says when it is ready. A folder that was used before goes
// on where it ended. Each part's pid and log lie in the folder.
func up(folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{folder}, parts...)...) }
	for _, sub := range []string{"logs", "pids"} {
		if err := os.MkdirAll(at(sub), 0o700); err != nil {
			return err
		}
	}
	if err := keys(at("keys")); err != nil {
		return err
	}
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	url := "https://127.0.0.1:" + ports[2]
	if err := files(folder, url); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	for _, part := range parts(folder, ports) {
		go keepUp(folder, part)
		if part.name == "kube-apiserver" {
			if err := ready(url); err != nil {
				return err
			}
		}
	}
	fmt.Printf("kubernetes is ready at %s\n", url)
	<-signals
	return nil // the parts die with this process
}

func parts(folder string, ports []string) []part {
	at := func(parts ...string) string { return filepath.Join(append([]string{folder}, parts...)...) }
	client, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	key := func(name string) string { return at("keys", name) }
	return []part{
		{"etcd", []string{
			"--data-dir", at("etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
			"--log-level", "warn", "--unsafe-no-fsync", "--quota-backend-bytes", "4294967296",
		}},
		{"kube-apiserver", []string{
			"--etcd-servers", client, "--bind-address", "127.0.0.1", "--secure-port", ports[2],
			"--tls-cert-file", key("server.crt"), "--tls-private-key-file", key("server.key"),
			"--token-auth-file", at("tokens.csv"), "--authorization-mode", "RBAC",
			"--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-key-file", key("accounts.pub"), "--service-account-signing-key-file", key("accounts.key"),
			"--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none",
			"--audit-policy-file", at("audit-policy.yaml"), "--audit-log-path", at("audit.log"),
		}},
		{"kube-controller-manager", []string{
			"--kubeconfig", at("kubeconfig"), "--bind-address", "127.0.0.1", "--secure-port", ports[3],
			"--service-account-private-key-file", key("accounts.key"), "--root-ca-file", key("ca.crt"),
			"--leader-elect=false", "--cert-dir", at("keys"),
		}},
	}
}

func files(folder, url string) error {
	authority, err := os.ReadFile(filepath.Join(folder, "keys", "ca.crt"))
	if err != nil {
		return err
	}
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: kubernetes
clusters:
- {name: kubernetes, cluster: {server: %q, certificate-authority-data: %s}}
users:
- {name: administrator, user: {token: %s}}
contexts:
- {name: kubernetes, context: {cluster: kubernetes, user: administrator}}
`, url, base64.StdEncoding.EncodeToString(authority), token)
	for name, text := range map[string]string{
		"kubeconfig":        kubeconfig,
		"tokens.csv":        token + `,administrator,administrator,"system:masters"` + "\n",
		"audit-policy.yaml": auditPolicy,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// keepUp runs a part for ever. It ends with us: whoever kills this process kills all.
func keepUp(folder string, part part) {
	// The kernel sends that signal when the thread ends that started the child.
	runtime.LockOSThread()
	for {
		if err := start(folder, part); err != nil {
			fmt.Fprintf(os.Stderr, "%s ended: %v\n", part.name, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func start(folder string, part part) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	name := filepath.Join(folder, "logs", part.name)
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	child := exec.Command(self, append([]string{part.name}, part.flags...)...)
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := child.Start(); err != nil {
		return err
	}
	pid := []byte(strconv.Itoa(child.Process.Pid))
	if err := os.WriteFile(filepath.Join(folder, "pids", part.name), pid, 0o600); err != nil {
		return err
	}
	return child.Wait()
}

func ready(url string) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{Transport: transport, Timeout: 2 * time.Second}
	var last error
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(50 * time.Millisecond) {
		request, err := http.NewRequest(http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			last = err
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		last = fmt.Errorf("readyz answers %s", response.Status)
	}
	return fmt.Errorf("kube-apiserver is not ready: %w", last)
}

func freePorts(count int) ([]string, error) {
	var ports []string
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// All stay open until all are known, so that none is given twice.
		defer listener.Close()
		address := listener.Addr().String()
		ports = append(ports, address[strings.LastIndex(address, ":")+1:])
	}
	return ports, nil
}

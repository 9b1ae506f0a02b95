// Command release makes the files of a release of Tenon, and sends images and chart to a registry. Run it from
// anywhere in the repository:
//
//	tools/release/run images            # images as OCI layouts and tar files, with bills of materials
//	tools/release/run push -registry R  # images and chart
//
// Without arguments it lists all commands. It refuses a tree with uncommitted changes, unless the version is for
// development.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-numa/tenon/tools/release/chart"
	"github.com/tenon-numa/tenon/tools/release/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// command is one subcommand.
type command struct {
	name, help string
	run        func(ctx context.Context, o *options, stdout io.Writer) error
}

func commands() []command {
	return []command{
		{"images", "build images into OUT/images, and print their digests", images},
		{"release", "write everything that a release's page has into OUT", release},
		{"chart", "make the chart's values, its documentation and the manifests in deploy anew", generate},
		{"package", "write the chart's package, and a kustomization with the same images, into OUT", pack},
		{"push", "send the images of OUT/images and the chart's package to REGISTRY", push},
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	all := commands()
	i := -1
	if len(args) > 0 {
		i = slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	}
	if i < 0 {
		var b strings.Builder
		b.WriteString("want one of these commands:")
		for _, c := range all {
			fmt.Fprintf(&b, "\n  %-10s %s", c.name, c.help)
		}
		return errors.New(b.String())
	}
	o := &options{}
	flags := o.flags(all[i].name)
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes flags only, but there is %q", all[i].name, flags.Arg(0))
	}
	if err := o.complete(ctx); err != nil {
		return err
	}
	return all[i].run(ctx, o, stdout)
}

// options are the options that all commands share.
type options struct {
	source    image.Source // its Version ends with the release of Kubernetes, if that is not the one of go.mod
	tagged    bool         // the commit has the tag of the version
	registry  string
	out       string // folder
	format    string // "json", or empty for a table
	platforms []v1.Platform
	programs  []image.Program
}

func (o *options) flags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&o.source.Version, "version", "", "version of the release, as v0.2.0 or 0.2.0 (default: that of the "+
		"tag at HEAD, else 0.0.0-dev.gCOMMIT)")
	flags.StringVar(&o.source.Kubernetes, "kubernetes", "", "release of the API server for which tenon-scheduler is built, "+
		"such as 1.35; the version then ends with it (default: the release in go.mod)")
	flags.StringVar(&o.registry, "registry", "ghcr.io/tenon-numa", "registry and folder of the images")
	flags.StringVar(&o.out, "out", "", "folder for what is made (default: dist in the repository)")
	flags.StringVar(&o.format, "o", "", "json, or a table")
	flags.Func("platforms", "platforms of the images (default: linux/amd64,linux/arm64)", func(text string) error {
		o.platforms = nil
		for _, t := range strings.Split(text, ",") {
			p, err := v1.ParsePlatform(t)
			if err != nil || p.OS != "linux" || p.Architecture == "" {
				return fmt.Errorf("platform %q is not of the form linux/ARCHITECTURE", t)
			}
			o.platforms = append(o.platforms, *p)
		}
		return nil
	})
	if name == "release" {
		o.programs = image.Programs()
		return flags
	}
	o.programs, _ = programsOf("")
	flags.Func("programs", "programs whose images are meant, such as tenon-agent,tenon-scheduler, or all (default: all but "+
		"tenon-descheduler and tenon-volcano-scheduler, for which other releases of Kubernetes are compiled)", func(text string) (err error) {
		o.programs, err = programsOf(text)
		return err
	})
	return flags
}

// programsOf returns the programs that a list of names with commas selects. "all" selects all programs, and the empty
// list the programs of the main module.
func programsOf(text string) (out []image.Program, err error) {
	all := image.Programs()
	if text == "all" {
		return all, nil
	}
	if text == "" {
		return slices.DeleteFunc(all, func(p image.Program) bool { return p.Module != "" }), nil
	}
	for _, name := range strings.Split(text, ",") {
		i := slices.IndexFunc(all, func(p image.Program) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("program %q has no image; those of %s have", name, programNames(all))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func programNames(all []image.Program) string {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// complete sets the options that no flag has set.
func (o *options) complete(ctx context.Context) (err error) {
	kubernetes := o.source.Kubernetes
	if o.source, o.tagged, err = readSource(ctx, o.source.Version); err != nil {
		return err
	}
	if err := o.builtFor(kubernetes); err != nil {
		return err
	}
	if o.platforms == nil {
		o.platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
	}
	if o.out == "" {
		o.out = filepath.Join(o.source.Root, "dist")
	}
	if o.format != "" && o.format != "json" {
		return fmt.Errorf("-o %s: want json, or no -o for a table", o.format)
	}
	return nil
}

// builtFor sets the release of Kubernetes for which the scheduler is built. The version ends with it, so that images and
// charts for several releases can be in one registry.
func (o *options) builtFor(release string) error {
	if release == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(o.source.Root, "tools", "kubernetes", "*.mod"))
	if err != nil {
		return fmt.Errorf("find the releases of Kubernetes: %w", err)
	}
	var all []string
	for _, f := range files {
		all = append(all, strings.TrimSuffix(filepath.Base(f), ".mod"))
	}
	if !slices.Contains(all, release) {
		return fmt.Errorf("-kubernetes %s: want one of %s, or nothing for the release in go.mod", release, strings.Join(all, ", "))
	}
	o.source.Kubernetes = release
	o.source.Version = versionFor(o.source.Version, release)
	return nil
}

func images(ctx context.Context, o *options, stdout io.Writer) error {
	all, err := buildImages(ctx, o)
	if err != nil {
		return err
	}
	if o.format == "json" {
		return printJSON(stdout, all)
	}
	return printImages(stdout, all)
}

// printImages prints the table of images; the size is what a node downloads.
func printImages(out io.Writer, all []image.Built) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "IMAGE\tPLATFORM\tMB\tDIGEST")
	for _, b := range all {
		if b.Platform == "" {
			fmt.Fprintf(w, "%s\tall\t\t%s\n", b.Name, b.Digest)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%s\n", b.Name, b.Platform, float64(b.Size)/1e6, b.Digest)
	}
	return w.Flush()
}

func push(ctx context.Context, o *options, stdout io.Writer) error {
	for _, p := range o.programs {
		sent, err := image.Push(ctx, filepath.Join(o.out, "images", p.Name), o.registry, o.source.Version)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, sent)
	}
	c, err := o.chart()
	if err != nil {
		return err
	}
	sent, err := chart.Push(ctx, c, o.source.Date, o.registry+"/charts")
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, sent)
	fmt.Fprintf(stdout, `
Install from a computer that reaches this registry:

  helm install tenon oci://%s/charts/%s --version %s \
    --namespace tenon-system --create-namespace --wait --timeout 10m
`, o.registry, c.Name(), o.source.Version)
	return nil
}

/**
 * The alerts and the dashboard of the chart: what Prometheus says of them, and whether the processes have the
 * metrics they ask for.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { listPoints, ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { CHART, complaints, named, over, rendered, tools, valueSet, type Values } from './render.ts'

interface Rule {
  alert: string
  expr: string
  for?: string
  labels: Record<string, string>
}

const ALERTS = join(CHART, 'files', 'alerts.yaml')
const groups = (parse(readFileSync(ALERTS, 'utf8')) as { groups: { name: string; rules: Rule[] }[] }).groups
const rules = groups.flatMap(({ rules }) => rules)
const operating = listPoints(readFileSync(join(ROOT, 'docs', 'operating.md'), 'utf8'))
/** The labels of each metric that the page names. */
const labels = new Map(
  operating.flatMap(({ text }) => {
    const [, name, list] = /^`(usher_\w+)` \(\w+(?:; labels ([^)]*))?\): /.exec(text) ?? []
    return name === undefined ? [] : [[name, list?.split(', ') ?? []] as const]
  }),
)

interface Dashboard {
  panels: { title: string; targets: { expr: string }[] }[]
}
const dashboard = JSON.parse(readFileSync(join(CHART, 'files', 'dashboard.json'), 'utf8')) as Dashboard
const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))

describe('the alerts', () => {
  test('are those of docs/operating.md, with the time that each must last and the name that it is paged by', () => {
    const advised = operating
      .filter(({ heading }) => heading === 'Alerts to set')
      .map(({ text }) =>
        /^`(.+?)`(?: for (\d+ [smh]))?: \*\*(\w+)\.\*\* /
          .exec(text.replace('` unless `', ' unless '))!
          .slice(1),
      )
      .map(([expr, lasting, name]) => [expr, lasting?.replace(' ', ''), name])
    expect(advised.length).toBeGreaterThan(5)
    expect(rules.map(({ expr, for: lasting, alert }) => [expr, lasting, alert])).toEqual(advised)
  })
})

test('alerts and dashboard ask for metrics that docs/operating.md names', () => {
  const asked = [...rules.map(({ expr }) => expr), ...expressions].flatMap(
    text => text.match(/\busher_\w+/g) ?? [],
  )
  const unknown = asked
    .map(name => name.replace(/_(?:bucket|count|sum)$/, ''))
    .filter(name => !labels.has(name))
  expect(labels.size).toBeGreaterThan(15)
  expect(unknown).toEqual([])
})

test('alerts and dashboard select and sum by labels that docs/operating.md names of the metric', () => {
  const ofEveryScrape = ['namespace', 'job', 'pod', 'le']
  const unknown = [...rules.map(({ expr }) => expr), ...expressions].flatMap(text => {
    const metrics = (text.match(/\busher_\w+/g) ?? []).map(name => name.replace(/_(?:bucket|count|sum)$/, ''))
    const known = new Set([...ofEveryScrape, ...metrics.flatMap(name => labels.get(name) ?? [])])
    const selected = [...text.matchAll(/(\w+)=~?"/g)].map(([, label]) => label!)
    const summed = [...text.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(', '))
    return [...selected, ...summed].filter(label => !known.has(label)).map(label => `${label} in ${text}`)
  })
  expect(unknown).toEqual([])
})

describeWith(tools('promtool'), 'promtool', ({ promtool }) => {
  /** Whether the alert fires at that time. */
  const firing = (alert: string, at: string, fires: boolean) => ({
    expr: `count(ALERTS{alertstate="firing", alertname="${alert}"})`,
    eval_time: at,
    exp_samples: fires ? [{ labels: '{}', value: 1 }] : [],
  })
  const failures = (cases: object[]): string => {
    const file = { rule_files: ['alerts.yaml'], evaluation_interval: '1m', tests: cases }
    let found = ''
    withFiles({ 'alerts.yaml': readFileSync(ALERTS, 'utf8'), 'cases.yaml': stringify(file) }, at => {
      found = complaints(promtool, ['test', 'rules', join(at, 'cases.yaml')])
    })
    return found
  }
  const withFiles = (files: Record<string, string>, run: (directory: string) => void): void => {
    const directory = mkdtempSync(join(tmpdir(), 'usher-rules-'))
    try {
      for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text)
      run(directory)
    } finally {
      rmSync(directory, { recursive: true })
    }
  }

  test('takes the rules, and finds a fault planted in them', () => {
    expect(complaints(promtool, ['check', 'rules', ALERTS])).toBe('')
    const wrong = readFileSync(ALERTS, 'utf8').replace(
      'rate(usher_decisions_total',
      'rat(usher_decisions_total',
    )
    withFiles({ 'alerts.yaml': wrong }, at => {
      expect(complaints(promtool, ['check', 'rules', join(at, 'alerts.yaml')])).toContain('rat')
    })
  })

  test('takes every expression of the dashboard', () => {
    const whole = expressions.map(expr =>
      expr.replaceAll('$__rate_interval', '5m').replaceAll('$namespace', '.*'),
    )
    const asRules = whole.map((expr, at) => ({ record: `panel:${at}`, expr }))
    withFiles({ 'panels.yaml': stringify({ groups: [{ name: 'panels', rules: asRules }] }) }, at => {
      expect(complaints(promtool, ['check', 'rules', join(at, 'panels.yaml')])).toBe('')
    })
  })

  /**
   * A series, and the alert that it must raise at the 30th minute; the same series standing still must raise
   * none.
   */
  const RAISED: [string, string, string, string][] = [
    ['UsherAuthorityDown', 'usher_build_info{party="authority"}', '1x10 stale', '1x40'],
    ['UsherSidecarDown', 'usher_build_info{party="sidecar"}', '1x10 stale', '1x40'],
    ['UsherOutage', 'usher_decisions_total{reason="temporarily_unavailable"}', '0+5x40', '5x40'],
    ['UsherNotApproved', 'usher_pat_requests_total{outcome="refused"}', '0+1x40', '1x40'],
    ['UsherAuthorityAddressDown', 'usher_authority_address_up{address="https://as-1"}', '0x40', '1x40'],
    ['UsherAccessReportsDropped', 'usher_access_reports_dropped_total', '0+1x40', '7x40'],
    ['UsherAccessReportsUnkept', 'usher_access_reports_unkept_total', '0+1x40', '7x40'],
    ['UsherAccessReportsWaiting', 'usher_access_reports_waiting', '5001x40', '5000x40'],
    ['UsherCertificateRefused', 'usher_certificate_reloads_total{outcome="refused"}', '0+1x40', '1x40'],
    ['UsherCertificateExpires', 'usher_certificate_not_after_seconds', '600000x40', '700000x40'],
    ['UsherClockOff', 'usher_clock_offset_seconds', '-1.5x40', '1x40'],
    ['UsherStandbySilent', 'usher_standby_silent_seconds', '6x40', '1x40'],
    ['UsherLeasesUnanswered', 'usher_lease_unanswered_total', '0+1x40', '1x40'],
    ['UsherDatabaseDown', 'usher_database_up', '0x40', '1x40'],
    ['UsherDatabaseWaiting', 'usher_database_waiting', '1x40', '0x40'],
    ['UsherNotificationsFail', 'usher_notifications_total{outcome="failed"}', '0+1x40', '1x40'],
    ['UsherLedgerContradicted', 'usher_checkpoints_total{outcome="contradicted"}', '1x40', '0x40'],
    ['UsherLedgerLost', 'usher_witnesses_total{outcome="lost"}', '_x20 1x20', '0x40'],
    ['UsherWitnessContradicted', 'usher_witness_contradictions_total', '1x40', '0x40'],
    ['UsherAuthorityFails', 'usher_http_request_seconds_count{status="503"}', '0+2x40', '2x40'],
  ]

  test('each alert has a case', () => {
    expect(RAISED.map(([alert]) => alert)).toEqual(rules.map(({ alert }) => alert))
  })

  test('each alert is raised by what it is for, and by nothing else', () => {
    const cases = RAISED.flatMap(([alert, series, bad, good]) =>
      [bad, good].map(values => ({
        interval: '1m',
        input_series: [{ series, values }],
        promql_expr_test: [firing(alert, '30m', values === bad)],
      })),
    )
    expect(failures(cases)).toBe('')
  })

  test('a server that waits for its owner, and asks once an hour, is on alert until it stops asking', () => {
    const refused = {
      interval: '1m',
      input_series: [
        { series: 'usher_pat_requests_total{outcome="refused"}', values: '0x9 1x59 2x59 3x200' },
      ],
      promql_expr_test: [
        firing('UsherNotApproved', '5m', false),
        ...['30m', '69m', '100m', '129m', '200m'].map(at => firing('UsherNotApproved', at, true)),
        firing('UsherNotApproved', '230m', false),
      ],
    }
    expect(failures([refused])).toBe('')
  })

  test('a lost ledger is on alert whether a signature or a witness found it', () => {
    const lost = {
      interval: '1m',
      input_series: [{ series: 'usher_checkpoints_total{outcome="lost"}', values: '1x40' }],
      promql_expr_test: [firing('UsherLedgerLost', '30m', true)],
    }
    expect(failures([lost])).toBe('')
  })
})

describeWith(tools('helm'), 'as the chart renders them', ({ helm }) => {
  const all = rendered(helm, valueSet('ha'))

  test('the PrometheusRule has the same alerts, with the labels that were wanted', () => {
    const { spec } = named(all, 'PrometheusRule', 'usher')
    const wanted = groups.map(group => ({
      ...group,
      rules: group.rules.map(rule => ({
        ...rule,
        // Another release would hide that this one is down.
        expr: rule.expr.replace('absent(usher_build_info{', 'absent(usher_build_info{namespace="usher", '),
        labels: { ...rule.labels, team: 'platform' },
      })),
    }))
    expect(spec).toEqual({ groups: wanted })
  })

  test.each([
    ['authority and sidecar', 'ha', {}, ['UsherAuthorityDown', 'UsherSidecarDown']],
    ['an authority alone', 'default', {}, ['UsherAuthorityDown']],
    ['a sidecar alone', 'minimal', {}, ['UsherSidecarDown']],
    ['a sidecar in the pod of a gateway', 'gateway-pod', {}, ['UsherAuthorityDown']],
    ['a witness alone', 'witness', { authority: { enabled: false } }, []],
  ] satisfies [string, string, Values, string[]][])(
    'of %s, what does not run raises no alert that it is down',
    (_title, set, changes, down) => {
      const watched = over(over(valueSet(set), changes), { metrics: { prometheusRule: { enabled: true } } })
      const { spec } = named(rendered(helm, watched), 'PrometheusRule', 'usher')
      const alerts = (spec as unknown as { groups: { rules: Rule[] }[] }).groups
        .flatMap(group => group.rules)
        .map(({ alert }) => alert)
      expect(alerts.filter(alert => /^Usher\w+Down$/.test(alert) && !/Address|Database/.test(alert))).toEqual(
        down,
      )
    },
  )

  test('the dashboard is the file', () => {
    expect(JSON.parse(named(all, 'ConfigMap', 'usher-dashboard').data!['usher.json']!)).toEqual(dashboard)
  })

  test('each ServiceMonitor finds a Service with the port that it reads, and Prometheus is let in', () => {
    const monitors = all.filter(({ kind }) => kind === 'ServiceMonitor')
    expect(monitors).toHaveLength(2)
    for (const { spec } of monitors) {
      const { selector, endpoints } = spec as unknown as {
        selector: { matchLabels: Record<string, string> }
        endpoints: { port: string }[]
      }
      const services = all.filter(
        ({ kind, metadata }) =>
          kind === 'Service' &&
          Object.entries(selector.matchLabels).every(([name, value]) => metadata.labels?.[name] === value),
      )
      expect(services).toHaveLength(1)
      const ports = (services[0]!.spec as unknown as { ports: { name: string }[] }).ports.map(
        ({ name }) => name,
      )
      expect(ports).toContain(endpoints[0]!.port)
    }
  })
})

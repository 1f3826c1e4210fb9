/**
 * Owns the list of pages, and how to reach them: a bar under the thumb with the first few and the rest behind
 * "More", or a column with all of them. Contract: "Owner API".
 */
import type { FunctionComponent } from 'preact'
import { AgentsPage } from '../pages/agents.tsx'
import { AllowancesPage } from '../pages/allowances.tsx'
import { JointPage } from '../pages/joint.tsx'
import { KeysPage } from '../pages/keys.tsx'
import { LedgerPage } from '../pages/ledger.tsx'
import { NotificationsPage } from '../pages/notifications.tsx'
import { OperatorsPage } from '../pages/operators.tsx'
import { ResourcesPage } from '../pages/resources.tsx'
import { RulesPage } from '../pages/rules.tsx'
import { OrganizationPage } from '../pages/organization.tsx'
import { WaitingPage } from '../pages/waiting.tsx'
import { PageHead } from './parts.tsx'
import type { PageProps } from '../access/session.ts'
import { WORDS } from '../words.ts'

/** Every page, in the order of the column; `icon` is a path in 28 by 28. */
export const PAGES = {
  waiting: { Page: WaitingPage, icon: 'M6 13h4l2 3h4l2-3h4M6 13l3-8h10l3 8v8H6z' },
  agents: { Page: AgentsPage, icon: 'M14 6a4 4 0 1 1 0 8 4 4 0 0 1 0-8ZM6 23c.8-4 4-6 8-6s7.200 2 8 6' },
  rules: { Page: RulesPage, icon: 'M6 9h9M20 9h2M6 19h3M14 19h8M17.500 6.500v5M11.500 16.500v5' },
  allowances: { Page: AllowancesPage, icon: 'M5 19a9 9 0 0 1 18 0M14 19l4-6M5 23h18' },
  operators: { Page: OperatorsPage, icon: 'M5 23V9l7-4v18M12 11h9v12M5 23h18M16 15h1M16 19h1' },
  resources: { Page: ResourcesPage, icon: 'M5 6h18v6H5zM5 16h18v6H5zM9 9h.01M9 19h.01' },
  organization: {
    Page: OrganizationPage,
    icon: 'M14 4v5M10 4h8v5h-8zM14 9v5M6 14h16M6 14v4M22 14v4M3 18h6v5H3zM19 18h6v5h-6z',
  },
  joint: {
    Page: JointPage,
    icon: 'M10 7a3.500 3.500 0 1 1 0 7 3.500 3.500 0 0 1 0-7ZM3 22c.7-3.500 3.500-5 7-5s6.300 1.500 7 5M18 7.500a3.500 3.500 0 0 1 0 6.500M20 17c2.800.4 4.500 2 5 5',
  },
  ledger: { Page: LedgerPage, icon: 'M7 5h14v18H7zM11 10h6M11 14h6M11 18h4' },
  keys: {
    Page: KeysPage,
    icon: 'M10 13a4.500 4.500 0 1 1 0 5.500 4.500 4.500 0 0 1 0-5.500ZM14 12l8-7M19 8l2.500 2.500',
  },
  notifications: { Page: NotificationsPage, icon: 'M7 20h14l-2-3v-5a5 5 0 0 0-10 0v5zM12 23h4M14 4v3' },
  more: { Page: MorePage, icon: 'M6 8h16M6 14h16M6 20h16' },
} as const satisfies Record<string, { Page: FunctionComponent<PageProps>; icon: string }>
export type PageName = keyof typeof PAGES

const NAMES = Object.keys(PAGES) as PageName[]
/** The pages that a phone has room for besides "More". */
const FIRST: readonly PageName[] = ['waiting', 'agents', 'ledger', 'keys']
const isBehind = (name: PageName): boolean => name !== 'more' && !FIRST.includes(name)

/** The page of this name; the first for any other. */
export function pageOf(name: string): PageName {
  return NAMES.find(one => one === name) ?? 'waiting'
}

export function Navigation({ page }: { page: PageName }) {
  return (
    <nav aria-label={WORDS.navigation}>
      <p class="brand">
        <img src="console.svg" width="28" height="28" alt="" />
        {WORDS.name}
      </p>
      <ul>
        {NAMES.map(name => (
          <li key={name} class={name === 'more' ? 'more' : isBehind(name) ? 'behind' : ''}>
            <a
              href={`#/${name}`}
              class={name === 'more' && isBehind(page) ? 'within' : ''}
              aria-current={name === page ? 'page' : undefined}
            >
              <Icon name={name} />
              <span>{WORDS.pages[name]}</span>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}

/** The pages that the bar of a phone has no room for. */
function MorePage() {
  return (
    <>
      <PageHead title={WORDS.pages.more} />
      <ul class="list tight">
        {NAMES.filter(isBehind).map(name => (
          <li key={name}>
            <a class="to-page" href={`#/${name}`}>
              <Icon name={name} />
              {WORDS.pages[name]}
            </a>
          </li>
        ))}
      </ul>
    </>
  )
}

function Icon({ name }: { name: PageName }) {
  return (
    <svg class="icon" viewBox="0 0 28 28" width="24" height="24" aria-hidden="true">
      <path d={PAGES[name].icon} />
    </svg>
  )
}
